"""What all config sections share."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A section of the config: never changed once read, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)
