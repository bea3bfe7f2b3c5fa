"""`keras.applications.efficientnet_v2`."""

from trainkit.applications.efficientnet_v2 import EfficientNetV2B0 as EfficientNetV2B0
from trainkit.applications.efficientnet_v2 import EfficientNetV2B1 as EfficientNetV2B1
from trainkit.applications.efficientnet_v2 import EfficientNetV2B2 as EfficientNetV2B2
from trainkit.applications.efficientnet_v2 import EfficientNetV2B3 as EfficientNetV2B3
from trainkit.applications.efficientnet_v2 import EfficientNetV2L as EfficientNetV2L
from trainkit.applications.efficientnet_v2 import EfficientNetV2M as EfficientNetV2M
from trainkit.applications.efficientnet_v2 import EfficientNetV2S as EfficientNetV2S
from trainkit.applications.preprocessing import decode_predictions as decode_predictions
from trainkit.applications.preprocessing import unchanged as preprocess_input
