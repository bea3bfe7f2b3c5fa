"""Pictures of what a classifier of digits gets wrong, as arrays for `tk.summary.image`."""

import numpy as np

# Digits of 3 by 5 pixels, a number of three bits for each row.
_FONT = [
    (7, 5, 5, 5, 7),
    (2, 6, 2, 2, 7),
    (7, 1, 7, 4, 7),
    (7, 1, 7, 1, 7),
    (5, 5, 7, 1, 1),
    (7, 4, 7, 1, 7),
    (7, 4, 7, 5, 7),
    (7, 1, 2, 2, 2),
    (7, 5, 7, 5, 7),
    (7, 5, 7, 1, 7),
]
_CELL = 32
_HEAD = 14


def _write(picture, text, top, left, color):
    """Write a number into a picture (height, width, 3), 2 pixels for one of the font."""
    for i, digit in enumerate(str(text)):
        bits = np.array([[row >> k & 1 for k in (2, 1, 0)] for row in _FONT[int(digit)]], bool)
        bits = bits.repeat(2, 0).repeat(2, 1)
        at = left + 8 * i
        picture[top : top + 10, at : at + 6][bits] = color


def confusion_picture(counts):
    """The confusion matrix as a picture: a row for each digit, a column for each answer.

    Args:
        counts: how often digit i was taken for digit j, shape (10, 10).

    Returns:
        uint8 of shape (1, height, width, 3). Right answers are blue, wrong ones red, each the
        darker the larger its share of the row; the numbers are counts.
    """
    size = _HEAD + 10 * _CELL
    picture = np.full((size, size, 3), 255, np.uint8)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    for i in range(10):
        _write(picture, i, _HEAD + i * _CELL + 11, 4, (90, 90, 90))
        _write(picture, i, 2, _HEAD + i * _CELL + 12, (90, 90, 90))
        for j in range(10):
            top, left = _HEAD + i * _CELL, _HEAD + j * _CELL
            dark = min(shares[i, j] * (1 if i == j else 8), 1.0)  # few are wrong
            full = np.array((31, 119, 180) if i == j else (214, 39, 40))
            color = 255 - dark * (255 - full)
            picture[top : top + _CELL - 1, left : left + _CELL - 1] = color
            if counts[i, j]:
                text = str(min(int(counts[i, j]), 9999))
                ink = (255, 255, 255) if dark > 0.5 else (60, 60, 60)
                _write(picture, text, top + 11, left + (_CELL - 8 * len(text)) // 2 + 1, ink)
    return picture[None]


def mistakes_picture(images, labels, answers, columns=8, most=32):
    """The digits that were taken for others, with the right label in blue and the answer in red.

    Args:
        images: in [0, 1], shape (n, height, width, 1).
        labels: the right digits, shape (n,).
        answers: what they were taken for, shape (n,).
        columns: digits in a row.
        most: at most so many digits, the first ones.

    Returns:
        uint8 of shape (1, height, width, 3), or `None` if all answers are right.
    """
    wrong = np.flatnonzero(labels != answers)[:most]
    if not len(wrong):
        return None
    scale = max(48 // images.shape[1], 1)
    height, width = images.shape[1] * scale + 16, images.shape[2] * scale + 4
    rows = -(-len(wrong) // columns)
    picture = np.full((rows * height, columns * width, 3), 255, np.uint8)
    for place, index in enumerate(wrong):
        top, left = place // columns * height, place % columns * width
        digit = 255 - (images[index, :, :, 0] * 255).astype(np.uint8)
        digit = digit.repeat(scale, 0).repeat(scale, 1)
        picture[top + 14 : top + 14 + len(digit), left : left + digit.shape[1]] = digit[..., None]
        _write(picture, labels[index], top + 2, left + 2, (31, 119, 180))
        _write(picture, answers[index], top + 2, left + 20, (214, 39, 40))
    return picture[None]
