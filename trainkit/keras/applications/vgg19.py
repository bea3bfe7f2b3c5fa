"""`keras.applications.vgg19`."""

from trainkit.applications.preprocessing import centered as preprocess_input
from trainkit.applications.preprocessing import decode_predictions as decode_predictions
from trainkit.applications.vgg import VGG19 as VGG19
