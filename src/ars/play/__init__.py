"""The playground: pick an image, watch the votes fill up, and attack the label at its certified radius."""
