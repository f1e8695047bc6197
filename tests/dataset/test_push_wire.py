"""Pushes over the wire, with the real clients: others who push too, killed pushes, and everything that can fail."""

from __future__ import annotations

import errno
import os
import re
import signal
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from dhd_labels.dataset.header import Header, data_files, parse_header
from dhd_labels.dataset.hub import explain
from dhd_labels.dataset.place import file_sha256
from dhd_labels.dataset.publish import push
from dhd_labels.dataset.push_plan import Local, read_folder
from dhd_labels.errors import DhdError
from tests.dataset.samples import PRELUDE, child, row, rows, write
from tests.hub import HubStub, Repo
from tests.hub.client import Clients
from tests.hub.faults import Fault

PUSH = PRELUDE + 'result = push(folder, "org/labels")\nprint(result.commit, *result.notes, sep="\\n")'
TRY = 'attempt(lambda: push(folder, "org/labels").commit)'
LOAD = """
import datasets
datasets.disable_progress_bars()
for config in ("messages", "replays", "problems"):
    print(config, sum(data.num_rows for data in datasets.load_dataset("org/labels", config).values()))
"""


def with_masking(folder: Path) -> Path:
    return write(folder, rows() | {"masking": [row("masking", pool_id="pool-p0")]})


def small(folder: Path, **changes: Any) -> Path:
    """A data set of two files."""
    return write(folder, {"messages": [row("messages", problem_id=p, **changes) for p in ("p0", "p1")]})


def consistent(repo: Repo) -> Header:
    """Return the header of the branch `main`, whose card must list exactly the Parquet files that are there."""
    files = repo.head()
    header = parse_header(files["README.md"].decode())
    assert header is not None
    assert sorted(header.paths) == sorted(path for path in files if path.endswith(".parquet"))
    return header


def holds(repo: Repo, folder: Path) -> bool:
    """Whether `main` has the rows of a folder and no others."""
    tables = {path: (folder / path).read_bytes() for path in data_files(folder) if path.endswith(".parquet")}
    return tables == {path: content for path, content in repo.head().items() if path.endswith(".parquet")}


@pytest.mark.parametrize("held_at", ["/repos/create", "/tree/", "/lfs/objects/batch", "/commit/"])
def test_another_push_wins_the_race(hub: HubStub, client: Clients, labels: Path, tmp_path: Path, held_at: str) -> None:
    """One push waits at a request while another one goes through: the last writer's data set stands, whole."""
    hold = hub.faults.hold("GET|POST", held_at, times=1)
    slow = client.start(PUSH, labels)
    hold.wait_until_reached()
    quick = client.run(PUSH, with_masking(tmp_path / "masking")).splitlines()[0]
    hold.release()
    said = slow.wait().splitlines()
    repo = hub.repos["org/labels"]
    assert set(consistent(repo).files) == {"messages", "replays", "problems"}
    assert holds(repo, labels)
    assert repo.history()[:2] == [said[0], quick]
    assert f"No longer in the data set: all (masking). Their rows stay at commit {quick}." in said
    assert child(client, labels, LOAD) == ("messages 9\nreplays 4\nproblems 3\n")


def test_two_commits_at_the_same_moment(hub: HubStub, client: Clients, labels: Path, tmp_path: Path) -> None:
    hold = hub.faults.hold("POST", "/commit/", times=2)
    folders = (labels, with_masking(tmp_path / "masking"))
    both = [client.start(PUSH, folder) for folder in folders]
    hold.wait_until_reached()
    hold.wait_until_reached()
    hold.release()
    commits = [pushed.wait().splitlines()[0] for pushed in both]
    repo = hub.repos["org/labels"]
    assert set(repo.history()[:2]) == set(commits) and len(repo.history()) == 3
    consistent(repo)
    assert holds(repo, folders[commits.index(repo.refs["main"])])


def test_whoever_is_overtaken_again_and_again_gives_up(hub: HubStub, client: Clients, labels: Path) -> None:
    hub.faults.add(Fault("POST", "/commit/", times=100, status=412, message="A commit has happened since."))
    out = child(client, labels, TRY)
    assert "Others committed to the data set 'org/labels' 6 times" in out and "Push again" in out
    assert hub.commits("org/labels") == 0


def test_a_push_killed_at_any_request_leaves_the_old_version_and_the_next_completes_it(
    hub: HubStub, client: Clients, tmp_path: Path
) -> None:
    old, new = small(tmp_path / "old", n_blocks=1), small(tmp_path / "new", n_blocks=2)
    client.run(PUSH, old)
    repo, known = hub.repos["org/labels"], dict(hub.objects)
    first = repo.refs["main"]
    hub.requests.clear()
    client.run(PUSH, new)
    asked = list(hub.requests)
    total = sum((new / path).stat().st_size for path in data_files(new) if path.endswith(".parquet"))
    commit = next(number for number, (_, path) in enumerate(asked) if "/commit/" in path)
    assert sum(method == "PUT" for method, _ in asked) == 2
    cases = [(number, False) for number in range(commit + 2)]
    cases += [(number, True) for number in range(commit + 1) if re.search("/lfs/[0-9a-f]|/commit/", asked[number][1])]
    for number, after in cases:
        repo.refs["main"], hub.objects, hub.uploaded = first, dict(known), 0
        kill(hub, client, new, number, after=after)
        went_in = number > commit or (number == commit and after)
        assert (repo.refs["main"] == first) != went_in, (number, after)
        assert holds(repo, new if went_in else old)
        consistent(repo)
        said = client.run(PUSH, new).splitlines()[0]
        assert repo.refs["main"] == said and holds(repo, new), (number, after)
        assert repo.parents[said] == first
        assert hub.uploaded == total, (number, after)  # what the killed push had sent is not sent again
    assert hub.unknown == []


def kill(hub: HubStub, client: Clients, folder: Path, number: int, *, after: bool) -> None:
    """Push, and end the pushing process when the Hub gets a request, before or after the Hub did what it asks."""
    pid: Future[int] = Future()

    def end() -> None:
        os.kill(pid.result(30), signal.SIGKILL)
        victim.status.result(30)

    hub.faults.add(Fault(".*", "", first=number + 1, kill=end, killed_after=after))
    victim = client.start(PUSH, folder)
    pid.set_result(victim.pid)
    assert victim.status.result(60) == -signal.SIGKILL
    hub.faults.clear()


def test_large_files_go_up_in_parts_and_a_tree_comes_in_pages(hub: HubStub, client: Clients, labels: Path) -> None:
    hub.multipart_above, hub.part_size, hub.page = 1000, 1500, 2
    assert client.run(PUSH, labels).split() == [hub.repos["org/labels"].refs["main"]]
    assert any(path.endswith("/complete") for _, path in hub.requests)
    assert holds(hub.repos["org/labels"], labels)


@pytest.mark.parametrize(
    "fault",
    [
        Fault("PUT", "/lfs/", status=500),
        Fault("PUT", "/lfs/", cut="upload"),
        Fault("POST", "/commit/", status=503),
        Fault("POST", "/commit/", cut="answer"),
        Fault("GET", "/tree/", status=502),
        Fault("GET", "/api/whoami-v2", status=429, headers={"Retry-After": "0"}),
        Fault("POST", "/preupload/", status=429, headers={"Retry-After": "0"}),
        Fault("GET", "/resolve/.*README", cut="download"),
        Fault("POST", "/commit/", seconds=0.5),
    ],
    ids=lambda fault: f"{fault.status or fault.cut or 'slow'} {fault.path}",
)
def test_what_passes_is_waited_out(hub: HubStub, client: Clients, tmp_path: Path, fault: Fault) -> None:
    folder = small(tmp_path / "labels")
    with (folder / "README.md").open("a") as card:
        card.write(f"\n{fault.path}\n")  # a card that no cache of the client has
    hub.faults.add(fault)
    client.run(PUSH, folder)
    assert fault.seen
    assert hub.commits("org/labels") == 1
    assert holds(hub.repos["org/labels"], folder)


FULL = "Private repository storage limit reached, please upgrade your plan"


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault("GET", "whoami", status=401, message="Invalid username or password."), "the token is not valid (401)"),
        (
            Fault("POST", "create", status=403, message="no rights"),
            "the token may not do this (403; it says: no rights",
        ),
        (Fault("POST", "batch", status=403, message=FULL), FULL),
        (Fault("POST", "commit", status=403, message=FULL), FULL),
        (Fault("PUT", "/lfs/", status=507, message="Insufficient storage"), "a failure of its own (507"),
        (Fault("PUT", "/lfs/", status=403, message="expired"), "(403; it says: expired)"),
        (Fault("GET", "/org/labels$", status=429, headers={"Retry-After": "4000"}), "do it again in 4000 seconds"),
        (Fault("POST", "commit", status=400, message="bad commit"), "the Hub answered 400; it says: bad commit"),
    ],
    ids=lambda value: f"{value.status} {value.path.strip('/')}" if isinstance(value, Fault) else "",
)
def test_what_stays_is_one_sentence_and_nothing_is_lost(
    hub: HubStub, client: Clients, tmp_path: Path, fault: Fault, words: str
) -> None:
    fault.times = 1 << 30
    hub.faults.add(fault)
    out = child(client, small(tmp_path / "labels"), TRY)
    assert out.startswith("DhdError: ") and out.count("\n") == 1
    assert words in out
    assert "org/labels" not in hub.repos or hub.commits("org/labels") == 0


def test_a_pull_request_is_not_opened_twice(hub: HubStub, client: Clients, tmp_path: Path) -> None:
    hub.faults.add(Fault("POST", "/commit/", cut="answer"))
    out = child(client, small(tmp_path / "labels"), 'attempt(lambda: push(folder, "org/labels", create_pr=True).url)')
    assert "cannot be reached" in out and "may be open" in out
    assert [ref for ref in hub.repos["org/labels"].refs if ref.startswith("refs/pr/")] == ["refs/pr/1"]


def test_a_pull_request_that_is_open_can_be_pushed_to(hub: HubStub, client: Clients, tmp_path: Path) -> None:
    folder = small(tmp_path / "labels")
    child(client, folder, 'push(folder, "org/labels", create_pr=True)')
    small(folder, n_blocks=3)
    child(client, folder, 'push(folder, "org/labels", revision="refs/pr/1")')
    repo = hub.repos["org/labels"]
    assert set(repo.head()) == {".gitattributes"}
    path = "messages/train-all-00000.parquet"
    assert repo.head("refs/pr/1")[path] == (folder / path).read_bytes()


def test_a_folder_that_changes_while_it_is_pushed_is_not_committed(
    hub: HubStub, client: Clients, tmp_path: Path
) -> None:
    folder = small(tmp_path / "labels", n_blocks=1)
    hold = hub.faults.hold("PUT", "/lfs/")
    pushed = client.start(PRELUDE + TRY, folder)
    hold.wait_until_reached()
    small(folder, n_blocks=2)
    hold.release()
    out = pushed.wait()
    assert "must stay as it is while it is pushed, but messages/" in out and "Nothing was committed" in out
    assert hub.commits("org/labels") == 0


def test_a_folder_rebuilt_before_it_is_compared_is_said_to_be(hub: HubStub, client: Clients, tmp_path: Path) -> None:
    folder = small(tmp_path / "labels", n_blocks=1)
    before = (folder / "messages/train-all-00000.parquet").read_bytes()
    hold = hub.faults.hold("GET", "/resolve/.*parquet")
    pushed = client.start(PRELUDE + TRY, folder)
    hold.wait_until_reached()
    small(folder, n_blocks=2)
    hold.release()
    assert "changed before it was compared" in pushed.wait()
    assert hub.repos["org/labels"].head()["messages/train-all-00000.parquet"] == before


def test_a_change_is_seen_whatever_it_is(labels: Path) -> None:
    path = labels / "messages/train-all-00000.parquet"
    content = path.read_bytes()

    def seen(local: Local) -> bool:
        try:
            local.check_unchanged()
        except DhdError:
            return True
        return False

    local = read_folder(labels)
    assert not seen(local)
    os.utime(path, ns=(1, 1))
    assert seen(local)
    local = read_folder(labels)
    path.unlink()
    assert seen(local)
    path.write_bytes(content)
    local = read_folder(labels)
    (labels / "messages/train-more-00000.parquet").write_bytes(content)
    assert seen(local)


def test_names_of_models_and_visibility(hub: HubStub, client: Clients, tmp_path: Path) -> None:
    hub.models["org/model"] = Repo(private=False)
    hub.models["org/model"].commit("main", {"README.md": b""})
    out = child(
        client,
        small(tmp_path / "labels"),
        """
for dry_run in (True, False):
    attempt(lambda: push(folder, "org/model", dry_run=dry_run))
attempt(lambda: check_repository("org/model"))
attempt(lambda: load_frame("org/model", "messages"))
push(folder, "org/closed")
print(*push(folder, "org/closed", private=False).notes)
push(folder, "org/open", private=False)
attempt(lambda: check_repository("org/open"))
""",
    ).splitlines()
    assert all("'org/model' is a model on the Hub" in line for line in out[:3])
    assert "no such data set" in out[3]
    assert "'org/closed' is private and stays so" in out[4]
    assert "is public already" in out[5]
    assert hub.repos["org/closed"].private and hub.commits("org/closed") == 1
    assert hub.models["org/model"].history() == list(hub.models["org/model"].commits)


def test_a_gated_data_set_says_so(hub: HubStub, client: Clients, tmp_path: Path) -> None:
    folder = small(tmp_path / "labels")
    hub.repos["org/gated"] = Repo(private=False, gated=True)
    hub.repos["org/gated"].commit("main", {"README.md": (folder / "README.md").read_bytes()})
    assert "the data set is gated" in child(client, folder, 'attempt(lambda: load_frame("org/gated", "messages"))')


@pytest.mark.parametrize(("version", "refused"), [("99", True), ("next", True), ("3", False)])
def test_a_newer_schema_is_not_replaced(
    hub: HubStub, client: Clients, tmp_path: Path, version: str, refused: bool
) -> None:
    folder = small(tmp_path / "labels")
    client.run(PUSH, folder)
    repo = hub.repos["org/labels"]
    files, card = dict(repo.head()), repo.head()["README.md"].decode()
    written = parse_header(card)
    assert written is not None
    old = f"schema_version: '{written.schema_version}'"
    assert old in card
    files["README.md"] = card.replace(old, f"schema_version: '{version}'").encode()
    theirs = repo.commit("main", files)
    out = child(client, small(folder, n_blocks=2), 'attempt(lambda: push(folder, "org/labels").notes)')
    assert (repo.refs["main"] == theirs) == refused
    if refused:
        assert f"schema_version '{version}', newer than" in out and "not replaced" in out
    else:
        assert f"schema_version '{version}' is replaced" in out and f"stays at commit {theirs}" in out


def test_a_card_with_broken_yaml(hub: HubStub, client: Clients, tmp_path: Path) -> None:
    hub.repos["org/labels"] = Repo(private=True)
    before = hub.repos["org/labels"].commit("main", {"README.md": b"---\nlicense: [mit\n---\nMine\n"})
    folder = small(tmp_path / "labels")
    assert "YAML" in child(client, folder, TRY)
    assert hub.repos["org/labels"].refs["main"] == before
    child(client, folder, 'push(folder, "org/labels", replace_card=True)')
    consistent(hub.repos["org/labels"])


def test_what_a_person_wrote_on_the_page_stays(hub: HubStub, client: Clients, tmp_path: Path) -> None:
    folder = small(tmp_path / "labels")
    client.run(PUSH, folder)
    repo = hub.repos["org/labels"]
    files = dict(repo.head())
    repo.commit("main", files | {"README.md": files["README.md"] + b"\nCall Ada about these.\n", "notes.txt": b"hers"})
    child(client, small(folder, n_blocks=2), 'push(folder, "org/labels")')
    assert b"Call Ada about these." in repo.head()["README.md"]
    assert repo.head()["notes.txt"] == b"hers"
    consistent(repo)
    assert holds(repo, folder)


def test_a_dry_run_says_how_files_stand_to_the_hub(hub: HubStub, client: Clients, labels: Path, tmp_path: Path) -> None:
    code = """
result = push(folder, "org/labels", dry_run=True)
print(*(f"{file.state} {file.path}" for file in result.files), *result.card_diff, *result.notes, sep="\\n")
"""
    new = child(client, labels, code).splitlines()
    assert {line.split()[0] for line in new if ".parquet" in line and line[0] not in "+-"} == {"new"}
    assert "It would be made, private: only who may see it will." in new
    assert hub.repos == {}
    client.run(PUSH, labels)
    before = len(hub.requests)
    same = child(client, labels, code).splitlines()
    assert {line.split()[0] for line in same} == {"unchanged"}
    changed = rows()
    changed["messages"][0]["n_blocks"] = 1
    other = write(tmp_path / "other", {"messages": changed["messages"], "masking": [row("masking")]})
    out = child(client, other, code).splitlines()
    assert "changed messages/train-all-00000.parquet" in out and "unchanged messages/test-all-00000.parquet" in out
    assert "new masking/train-all-00000.parquet" in out and "deleted problems/train-all-00000.parquet" in out
    assert "changed README.md" in out and any(line.startswith("-| replays ") for line in out)
    assert all(method in ("GET", "HEAD") for method, _ in hub.requests[before:])
    hub.faults.add(Fault(".*", "", times=1 << 30, status=503))
    down = child(client, other, code)
    assert "unknown messages/train-all-00000.parquet" in down and "a failure of its own (503" in down


def test_the_command_shows_the_card_of_a_dry_run_with_its_indentation(
    hub: HubStub, client: Clients, labels: Path
) -> None:
    code = """
import sys
from dhd_labels.__main__ import main
assert main(["push", sys.argv[1], "--repo", "org/labels", "--dry-run"]) == 0
"""
    shown = client.run(code, labels).splitlines()
    header = re.findall("---\n(.*?)\n---", (labels / "README.md").read_text(), re.DOTALL)[0].splitlines()
    assert any(line.startswith("    ") for line in header)
    assert {f"+{line}" for line in header} <= set(shown)


def test_a_full_disk_is_named_wherever_it_shows() -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    assert "no space is left on this disk" in explain(full, "Loading")
    wrapped = RuntimeError("An error occurred while generating the dataset")
    wrapped.__cause__ = full
    assert "no space is left on this disk" in explain(wrapped, "Loading")


def test_a_hand_edited_file_is_not_pushed(tmp_path: Path) -> None:
    folder = small(tmp_path / "labels")
    digests = {str(p.relative_to(folder)): file_sha256(p) for p in folder.glob("messages/*.parquet")}
    write(folder, {"messages": [row("messages", problem_id=p) for p in ("p0", "p1")]}, sha256=digests)
    read_folder(folder)
    path = folder / "messages/train-all-00000.parquet"
    pq.write_table(pq.read_table(path), path, compression="none")
    with pytest.raises(DhdError, match="is not the one that its card was written for"):
        push(folder, "org/labels", dry_run=True)
