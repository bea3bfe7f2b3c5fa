"""`keras.applications.efficientnet`."""

from trainkit.applications.efficientnet import EfficientNetB0 as EfficientNetB0
from trainkit.applications.efficientnet import EfficientNetB1 as EfficientNetB1
from trainkit.applications.efficientnet import EfficientNetB2 as EfficientNetB2
from trainkit.applications.efficientnet import EfficientNetB3 as EfficientNetB3
from trainkit.applications.efficientnet import EfficientNetB4 as EfficientNetB4
from trainkit.applications.efficientnet import EfficientNetB5 as EfficientNetB5
from trainkit.applications.efficientnet import EfficientNetB6 as EfficientNetB6
from trainkit.applications.efficientnet import EfficientNetB7 as EfficientNetB7
from trainkit.applications.preprocessing import decode_predictions as decode_predictions
from trainkit.applications.preprocessing import unchanged as preprocess_input
