"""`keras.utils.bounding_boxes`: formats, overlaps and encodings of boxes."""

from trainkit.ops.images.box_formats import affine_transform as affine_transform
from trainkit.ops.images.box_formats import clip_to_image_size as clip_to_image_size
from trainkit.ops.images.box_formats import convert_format as convert_format
from trainkit.ops.images.box_formats import crop as crop
from trainkit.ops.images.box_formats import pad as pad
from trainkit.ops.images.box_overlaps import compute_ciou as compute_ciou
from trainkit.ops.images.box_overlaps import compute_iou as compute_iou
from trainkit.ops.images.box_overlaps import decode_deltas_to_boxes as decode_deltas_to_boxes
from trainkit.ops.images.box_overlaps import encode_box_to_deltas as encode_box_to_deltas
