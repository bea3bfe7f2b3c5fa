"""`keras.applications`: networks for images, loaded when they are asked for."""

from typing import TYPE_CHECKING

from trainkit.core.process.later_imports import later_members as _later_members

if TYPE_CHECKING:
    from trainkit.applications.convnext import ConvNeXtBase as ConvNeXtBase
    from trainkit.applications.convnext import ConvNeXtLarge as ConvNeXtLarge
    from trainkit.applications.convnext import ConvNeXtSmall as ConvNeXtSmall
    from trainkit.applications.convnext import ConvNeXtTiny as ConvNeXtTiny
    from trainkit.applications.convnext import ConvNeXtXLarge as ConvNeXtXLarge
    from trainkit.applications.densenet import DenseNet121 as DenseNet121
    from trainkit.applications.densenet import DenseNet169 as DenseNet169
    from trainkit.applications.densenet import DenseNet201 as DenseNet201
    from trainkit.applications.efficientnet import EfficientNetB0 as EfficientNetB0
    from trainkit.applications.efficientnet import EfficientNetB1 as EfficientNetB1
    from trainkit.applications.efficientnet import EfficientNetB2 as EfficientNetB2
    from trainkit.applications.efficientnet import EfficientNetB3 as EfficientNetB3
    from trainkit.applications.efficientnet import EfficientNetB4 as EfficientNetB4
    from trainkit.applications.efficientnet import EfficientNetB5 as EfficientNetB5
    from trainkit.applications.efficientnet import EfficientNetB6 as EfficientNetB6
    from trainkit.applications.efficientnet import EfficientNetB7 as EfficientNetB7
    from trainkit.applications.efficientnet_v2 import EfficientNetV2B0 as EfficientNetV2B0
    from trainkit.applications.efficientnet_v2 import EfficientNetV2B1 as EfficientNetV2B1
    from trainkit.applications.efficientnet_v2 import EfficientNetV2B2 as EfficientNetV2B2
    from trainkit.applications.efficientnet_v2 import EfficientNetV2B3 as EfficientNetV2B3
    from trainkit.applications.efficientnet_v2 import EfficientNetV2L as EfficientNetV2L
    from trainkit.applications.efficientnet_v2 import EfficientNetV2M as EfficientNetV2M
    from trainkit.applications.efficientnet_v2 import EfficientNetV2S as EfficientNetV2S
    from trainkit.applications.inception_resnet_v2 import InceptionResNetV2 as InceptionResNetV2
    from trainkit.applications.inception_v3 import InceptionV3 as InceptionV3
    from trainkit.applications.mobilenet import MobileNet as MobileNet
    from trainkit.applications.mobilenet import MobileNetV2 as MobileNetV2
    from trainkit.applications.mobilenet_v3 import MobileNetV3Large as MobileNetV3Large
    from trainkit.applications.mobilenet_v3 import MobileNetV3Small as MobileNetV3Small
    from trainkit.applications.nasnet import NASNetLarge as NASNetLarge
    from trainkit.applications.nasnet import NASNetMobile as NASNetMobile
    from trainkit.applications.resnet import ResNet50 as ResNet50
    from trainkit.applications.resnet import ResNet50V2 as ResNet50V2
    from trainkit.applications.resnet import ResNet101 as ResNet101
    from trainkit.applications.resnet import ResNet101V2 as ResNet101V2
    from trainkit.applications.resnet import ResNet152 as ResNet152
    from trainkit.applications.resnet import ResNet152V2 as ResNet152V2
    from trainkit.applications.vgg import VGG16 as VGG16
    from trainkit.applications.vgg import VGG19 as VGG19
    from trainkit.applications.xception import Xception as Xception
    from trainkit.keras.applications import convnext as convnext
    from trainkit.keras.applications import densenet as densenet
    from trainkit.keras.applications import efficientnet as efficientnet
    from trainkit.keras.applications import efficientnet_v2 as efficientnet_v2
    from trainkit.keras.applications import imagenet_utils as imagenet_utils
    from trainkit.keras.applications import inception_resnet_v2 as inception_resnet_v2
    from trainkit.keras.applications import inception_v3 as inception_v3
    from trainkit.keras.applications import mobilenet as mobilenet
    from trainkit.keras.applications import mobilenet_v2 as mobilenet_v2
    from trainkit.keras.applications import mobilenet_v3 as mobilenet_v3
    from trainkit.keras.applications import nasnet as nasnet
    from trainkit.keras.applications import resnet as resnet
    from trainkit.keras.applications import resnet50 as resnet50
    from trainkit.keras.applications import resnet_v2 as resnet_v2
    from trainkit.keras.applications import vgg16 as vgg16
    from trainkit.keras.applications import vgg19 as vgg19
    from trainkit.keras.applications import xception as xception

_FILES = {
    "convnext": "ConvNeXtBase ConvNeXtLarge ConvNeXtSmall ConvNeXtTiny ConvNeXtXLarge",
    "densenet": "DenseNet121 DenseNet169 DenseNet201",
    "efficientnet": (
        "EfficientNetB0 EfficientNetB1 EfficientNetB2 EfficientNetB3 EfficientNetB4 "
        "EfficientNetB5 EfficientNetB6 EfficientNetB7"
    ),
    "efficientnet_v2": (
        "EfficientNetV2B0 EfficientNetV2B1 EfficientNetV2B2 EfficientNetV2B3 EfficientNetV2L "
        "EfficientNetV2M EfficientNetV2S"
    ),
    "inception_resnet_v2": "InceptionResNetV2",
    "inception_v3": "InceptionV3",
    "mobilenet": "MobileNet MobileNetV2",
    "mobilenet_v3": "MobileNetV3Large MobileNetV3Small",
    "nasnet": "NASNetLarge NASNetMobile",
    "resnet": "ResNet50 ResNet50V2 ResNet101 ResNet101V2 ResNet152 ResNet152V2",
    "vgg": "VGG16 VGG19",
    "xception": "Xception",
}
"""Networks, by the file of `trainkit.applications` that holds them."""
_OWN = (
    "convnext densenet efficientnet efficientnet_v2 imagenet_utils inception_resnet_v2 "
    "inception_v3 mobilenet mobilenet_v2 mobilenet_v3 nasnet resnet resnet50 resnet_v2 vgg16 "
    "vgg19 xception"
)
"""Files that stand here."""
_MODULES = {
    name: f"trainkit.applications.{f}" for f, names in _FILES.items() for name in names.split()
}
_MODULES |= {name: f"{__name__}.{name}" for name in _OWN.split()}


if not TYPE_CHECKING:  # names that are not there are errors in editors
    __getattr__ = _later_members(globals(), _MODULES)
    __all__ = sorted(_MODULES)


def __dir__() -> list[str]:
    return sorted(_MODULES)
