"""Networks for images, and what prepares their pixels."""
