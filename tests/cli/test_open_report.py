"""The report in a browser: what the server of this machine gives, and to whom."""

import http.client
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from profkit.cli import main
from profkit.cli.open_report import serving
from profkit.core.errors import InputError
from profkit.dag.overrides import save_selection
from tests.cli.test_run_folders import make_run
from tests.waiting import LIMIT_S


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Return a folder with results, in which the commands are typed."""
    files = {
        "results/report.html": "the report",
        "results/runs/r/timeline/torch_profiler.trace.json.gz": "\x1f packed",
        "results/runs/r/analyze/steps.json": "{}",
        "results/.profkit/last.json": "[]",
        "secret.txt": "secret",
        "mine.json": "[1]",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "results/link.txt").symlink_to(tmp_path / "secret.txt")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@contextmanager
def served(target=""):
    """Yield a function that asks the server for a path, with the token or as it stands."""
    with serving(str(target))[0] as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()

        def ask(path, *, host=server.host, method="GET", token=True):
            connection = http.client.HTTPConnection(server.host, timeout=LIMIT_S)
            target = f"/{server.token}/{path}" if token else path
            connection.request(method, target, headers={"Host": host})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

        yield ask
        server.shutdown()
        thread.join()


def test_files_of_the_results_are_served_and_timelines_are_handed_to_perfetto():
    timeline = "runs/r/timeline/torch_profiler.trace.json.gz"
    with served() as ask:
        assert ask("report.html") == (200, "the report")
        assert ask("report.html", method="HEAD") == (200, "")
        assert ask("runs/r/analyze/steps.json") == (200, "{}")
        status, page = ask(timeline)
        assert status == 200
        assert "https://ui.perfetto.dev" in page
        assert ask(f"{timeline}?raw") == (200, "\x1f packed")


@pytest.mark.parametrize(
    "path",
    [
        *("", "runs", "runs/", "../secret.txt", "%2e%2e/secret.txt", "runs/../../secret.txt"),
        *("/secret.txt", "link.txt", ".profkit/last.json", "nothing", "a%00b", "runs/r/../.."),
    ],
)
def test_nothing_else_is_served(path):
    with served() as ask:
        assert ask(path)[0] == 404


def test_requests_without_the_secret_or_by_another_name_get_nothing():
    with served() as ask:
        assert ask("/report.html", token=False)[0] == 404
        assert ask("/x/report.html", token=False)[0] == 404
        for host in (
            "evil.example:80",
            "localhost.evil.example",
            "127.0.0.1.nip.io",
            "",
            "localhost:x",
        ):
            status, page = ask("report.html", host=host)
            assert status == 403
            assert "open this as 127.0.0.1 or localhost" in page
        assert ask("report.html", method="POST")[0] == 501


def test_a_trace_from_elsewhere_is_the_only_file_of_its_folder_that_is_served(folder):
    with served(Path("mine.json")) as ask:
        assert "https://ui.perfetto.dev" in ask("mine.json")[1]
        assert ask("mine.json?raw") == (200, "[1]")
        assert ask("secret.txt")[0] == 404
    with served(folder / "results/runs/r/analyze/steps.json") as ask:
        assert ask("runs/r/analyze/steps.json") == (200, "{}")


def test_two_servers_have_secrets_of_their_own_and_this_machine_alone_reaches_them():
    with serving("")[0] as one, serving("")[0] as other:
        assert one.token != other.token
        assert one.server_address[0] == "127.0.0.1"


def test_without_a_report_there_is_nothing_to_open(folder, capsys):
    (folder / "results/report.html").unlink()
    assert main(["open"]) == 1
    assert "profkit profile -- COMMAND makes it" in capsys.readouterr().err


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1:1", "127.0.0.1"])
def test_this_machine_may_be_named_as_ssh_and_people_do(host):
    with served() as ask:
        assert ask("report.html", host=host) == (200, "the report")


def test_a_run_is_opened_in_the_report_of_the_last_selection(folder):
    for name in ("first-1", "second-2", "old-3"):
        make_run(folder, name, statuses=["ok"])
    save_selection((), ["first-1", "second-2"])
    for named, place in [("first-1", 1), ("second", 2), ("results/runs/second-2", 2)]:
        server, page = serving(named)
        with server:
            assert page == f"report.html#/overview?run={place}"
            assert server.address(page).endswith(f"/{page}")
    with pytest.raises(InputError, match="old-3: not in the report of the last selection"):
        serving("old")
    with pytest.raises(InputError, match="no run or file is called 'nothing'"):
        serving("nothing")


def test_a_folder_of_results_is_opened_from_anywhere(folder, monkeypatch):
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    for target in ("..", "../results"):
        with served(target) as ask:
            assert ask("report.html") == (200, "the report")
            assert ask("secret.txt")[0] == 404


def test_a_port_may_be_chosen_that_is_free(capsys):
    with serving("")[0] as one:
        assert main(["open", "--no-browser", "--port", str(one.server_port)]) == 1
    assert "Address already in use\n  hint: choose another --port" in capsys.readouterr().err
    with serving("", one.server_port)[0] as again:
        assert again.server_port == one.server_port
    assert main(["open", "--port", "70000"]) == 1


def test_the_address_is_printed_and_an_interrupt_ends_the_server():
    process = subprocess.Popen(
        [sys.executable, "-m", "profkit", "open", "--no-browser"],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    address = urlsplit(process.stdout.readline().strip())
    connection = http.client.HTTPConnection(address.netloc, timeout=LIMIT_S)
    connection.request("GET", address.path)
    assert connection.getresponse().read() == b"the report"
    process.send_signal(2)
    process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0
