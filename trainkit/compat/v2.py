"""TensorFlow 2's names under the path that programs of its first years import: those of `trainkit`.

`import trainkit.compat.v2 as tk` gives what `import trainkit as tk` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trainkit

if TYPE_CHECKING:
    from trainkit import *
else:  # names that are not there are errors in editors

    def __getattr__(name: str) -> Any:
        return getattr(trainkit, name)


def __dir__() -> list[str]:
    return dir(trainkit)
