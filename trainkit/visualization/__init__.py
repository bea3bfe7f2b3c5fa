"""Images with bounding boxes, masks and labels: `keras.visualization`."""

from trainkit.visualization.drawing import draw_bounding_boxes as draw_bounding_boxes
from trainkit.visualization.drawing import draw_segmentation_masks as draw_segmentation_masks
from trainkit.visualization.galleries import plot_bounding_box_gallery as plot_bounding_box_gallery
from trainkit.visualization.galleries import plot_image_gallery as plot_image_gallery
from trainkit.visualization.galleries import (
    plot_segmentation_mask_gallery as plot_segmentation_mask_gallery,
)
