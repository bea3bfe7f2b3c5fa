"""`keras.applications.inception_v3`."""

from trainkit.applications.inception_v3 import InceptionV3 as InceptionV3
from trainkit.applications.preprocessing import decode_predictions as decode_predictions
from trainkit.applications.preprocessing import scaled as preprocess_input
