"""Reading image files as a person would expect."""

from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor


def read_image(path: Path) -> Float[Tensor, "3 h w"]:
    """An image file as RGB in [0, 1], the right way up."""
    try:
        with Image.open(path) as file:
            picture = ImageOps.exif_transpose(file).convert("RGB")
    except FileNotFoundError:
        raise ValueError(f"there is no image at {path}") from None
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as an image: {error}") from error
    return torch.from_numpy(np.array(picture)).permute(2, 0, 1).float() / 255
