"""`keras.applications.convnext`."""

from trainkit.applications.convnext import ConvNeXtBase as ConvNeXtBase
from trainkit.applications.convnext import ConvNeXtLarge as ConvNeXtLarge
from trainkit.applications.convnext import ConvNeXtSmall as ConvNeXtSmall
from trainkit.applications.convnext import ConvNeXtTiny as ConvNeXtTiny
from trainkit.applications.convnext import ConvNeXtXLarge as ConvNeXtXLarge
from trainkit.applications.preprocessing import decode_predictions as decode_predictions
from trainkit.applications.preprocessing import unchanged as preprocess_input
