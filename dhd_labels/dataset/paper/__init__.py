"""Read the layout in which the paper's authors publish their replays, so that their labels train our selectors.

`raw/<benchmark>/dhd/<model>/{layer_a,loo}/part-*.jsonl.zst`: a row of `layer_a` is a problem with its pool, its
nested and its single-message outcomes; a row of `loo` has its leave-one-out outcomes. `import_release` turns both into
a data set of ours.
"""

from dhd_labels.dataset.paper.convert import ImportReport, import_release
from dhd_labels.dataset.paper.files import is_release

__all__ = ["ImportReport", "import_release", "is_release"]
