"""A contact sheet: what the model will see, with labels."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from PIL import Image, ImageDraw
from torch import Tensor

LINE, GAP, SMALLEST, COLUMNS = 12, 4, 96, 8


def contact_sheet(images: Float[Tensor, "n 3 h w"], captions: Sequence[str]) -> Image.Image:
    """Images in rows, each with its caption below; small ones are shown larger, pixel by pixel."""
    height, width = images.shape[2:]
    zoom = max(1, round(SMALLEST / max(height, width)))
    cell_width, cell_height = width * zoom + GAP, height * zoom + LINE + GAP
    rows = -(-len(images) // COLUMNS)
    sheet = Image.new("RGB", (COLUMNS * cell_width + GAP, rows * cell_height + GAP), "white")
    draw = ImageDraw.Draw(sheet)
    for number, (image, caption) in enumerate(zip(images, captions, strict=True)):
        left, top = GAP + number % COLUMNS * cell_width, GAP + number // COLUMNS * cell_height
        pixels = (image.permute(1, 2, 0).cpu().numpy() * 255).round().astype(np.uint8)
        shown = Image.fromarray(pixels).resize((width * zoom, height * zoom), Image.Resampling.NEAREST)
        sheet.paste(shown, (left, top))
        draw.text((left, top + height * zoom), caption[: max(1, width * zoom // 6)], fill="black")
    return sheet
