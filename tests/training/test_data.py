"""From rows to arrays: what every subset earned, complete pools, targets, and reading only what is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dhd_labels.dataset.load import load_frame
from dhd_labels.errors import DhdError
from dhd_labels.simulate import scenario, write_simulation
from dhd_selectors.actions import ALONE, FULL, REMOVALS, SINGLES
from dhd_selectors.base import POOL_COLUMN, TEXT_COLUMNS
from training.data import LabelData, assemble, load_data, main_groups
from training.outcomes import success_of
from training.read import COLUMNS, read_frame
