"""A Hub on loopback for the real `huggingface_hub` and `datasets` clients: data sets and models, kept in memory.

The clients read HF_ENDPOINT when they are imported, so tests run them in a child process with
`HubStub.environment`. People and CI start it with `python -m tests.hub`.
"""

from tests.hub.app import running
from tests.hub.state import READ_TOKEN, TOKEN, HubStub, Repo

__all__ = ["READ_TOKEN", "TOKEN", "HubStub", "Repo", "running"]
