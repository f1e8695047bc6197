from __future__ import annotations

import pytest
from fact_files import Facts, find_facts


@pytest.fixture(scope="session")
def facts() -> Facts:
    return find_facts()
