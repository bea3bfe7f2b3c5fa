"""Image operations under the names of `keras.ops.image`, one line each."""

from trainkit.ops.images.color_spaces import hsv_to_rgb as hsv_to_rgb
from trainkit.ops.images.color_spaces import rgb_to_grayscale as rgb_to_grayscale
from trainkit.ops.images.color_spaces import rgb_to_hsv as rgb_to_hsv
from trainkit.ops.images.image_filters import elastic_transform as elastic_transform
from trainkit.ops.images.image_filters import gaussian_blur as gaussian_blur
from trainkit.ops.images.image_filters import sobel_edges as sobel_edges
from trainkit.ops.images.image_filters import ssim as ssim
from trainkit.ops.images.patches import crop_images as crop_images
from trainkit.ops.images.patches import extract_patches as extract_patches
from trainkit.ops.images.patches import extract_patches_3d as extract_patches_3d
from trainkit.ops.images.patches import pad_images as pad_images
from trainkit.ops.images.patches import reconstruct_patches as reconstruct_patches
from trainkit.ops.images.resampling import affine_transform as affine_transform
from trainkit.ops.images.resampling import map_coordinates as map_coordinates
from trainkit.ops.images.resampling import perspective_transform as perspective_transform
from trainkit.ops.images.resizing import resize as resize
from trainkit.ops.images.resizing import scale_and_translate as scale_and_translate
