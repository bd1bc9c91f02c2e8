"""docs/deploy.md: what can be done without an account is done here, the rest is held to what exists."""

import json
import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import boto3
import psycopg
import pytest
import typer.main
from botocore import xform_name
from typer.testing import CliRunner

from dpp.platform.keys import api_keys
from dpp_cdk.functions.spec import Part
from dpp_cdk.functions.table import functions_of
from dpp_cdk.monitoring.alarm_spec import ResourceNames
from dpp_cdk.monitoring.alarms import alarms
from dpp_cdk.settings.options import PASSED_ON, Options, read_options, variable_of
from dpp_cdk.settings.sizes import SIZES, Size
from dpp_cli.docs import costs
from dpp_cli.main import app
from dpp_cli.operator.app import GROUPS
from dpp_cli.paths import ROOT
from tests.local.operator import InProcessLambda
from tests.support.world import Tenant, World

GUIDE = costs.PATH.read_text(encoding="utf-8")
CDK = ROOT / "cdk" / "dpp_cdk"
BLOCKS = [
    re.sub(r"^   ", "", block, flags=re.MULTILINE) if indent else block
    for indent, block in re.findall(r"^( *)```sh\n(.*?)^ *```", GUIDE, re.MULTILINE | re.DOTALL)
]
FILES = re.findall(r"^```json\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
_LOGICAL_ID = re.compile(r'override_logical_id\(\s*"(\w+)"')


def _source(*names: str) -> str:
    """The text of these modules, in whatever folder of the stack they are."""
    paths = [next(CDK.rglob(f"{name}.py")) for name in names]
    return "".join(path.read_text(encoding="utf-8") for path in paths)


def _commands(program: str) -> Iterator[list[str]]:
    """Every call of a program, in the blocks and in the text, as words."""
    joined = "\n".join(BLOCKS).replace("\\\n", " ")
    written = re.findall(rf"(?:^|\$\(|\| )({program} [^\n]*?)(?:\)$| \||$)", joined, re.MULTILINE)
    for call in [*written, *re.findall(rf"`({program} [^`\n]*)`", GUIDE)]:
        yield shlex.split(call)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split("\n")[0][:40])
def test_every_block_is_a_script_that_bash_can_read(block: str) -> None:
    subprocess.run(["bash", "-n"], input=block, text=True, check=True)


@pytest.mark.parametrize("words", list(_commands("dpp")), ids=shlex.join)
def test_every_command_of_ours_takes_the_options_that_it_is_given(words: list[str]) -> None:
    command: Any = typer.main.get_command(app)
    rest = words[3:] if words[1] == "--stage" else words[1:]
    if words[1] == "--stage" and rest:
        assert rest[0] in GROUPS
    while rest and hasattr(command, "commands") and rest[0] in command.commands:
        command, rest = command.commands[rest[0]], rest[1:]
    if rest or not hasattr(command, "commands"):  # else the name of a group
        command.make_context(shlex.join(words), list(rest))


@pytest.mark.parametrize("words", list(_commands("aws")), ids=lambda words: shlex.join(words[:3]))
def test_every_call_of_aws_is_one_that_the_service_has(words: list[str]) -> None:
    """Held to botocore's own model of the service: the operation, and every option."""
    service, operation, *options = words[1:]
    client = boto3.client(service, region_name="us-east-1")  # type: ignore[call-overload]
    if operation == "wait":
        assert options[0].replace("-", "_") in client.waiter_names
        return
    if (service, operation) == ("logs", "tail"):  # the command line's own
        return
    model = client.meta.service_model
    named = {xform_name(name, "-"): name for name in model.operation_names}
    shape = model.operation_model(named[operation]).input_shape
    members = {xform_name(name, "-"): kind for name, kind in shape.members.items()} if shape else {}
    given = [option.removeprefix("--") for option in options if option.startswith("--")]
    for option in set(given) - {"query", "output"}:
        member = members.get(option) or members[option.removeprefix("no-")]
        assert option in members or member.type_name == "boolean"
    required = {xform_name(name, "-") for name in (shape.required_members if shape else [])}
    assert required <= {option.removeprefix("no-") for option in given}, operation


def test_every_make_target_exists() -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    named = set(re.findall(r"^ *make ([a-z]+)", GUIDE, re.MULTILINE))
    assert {"bootstrap", "synth"} <= named <= set(targets)


def test_the_stacks_are_those_of_the_app() -> None:
    made = set(re.findall(r'f"\{prefix\}-([a-z]+)"', _source("deployment")))
    assert set(re.findall(r"Dpp-(?:dev|prod)-([a-z]+)", GUIDE)) == made


def test_every_context_key_of_the_app_is_explained_and_no_other() -> None:
    read = {"stage", "architecture", *Options.model_fields}
    as_options = {name for name in ("size", "stage", "architecture") if f"`--{name} " in GUIDE}
    in_files = {name for block in FILES for name in json.loads(block)}
    assert set(re.findall(r"-c ([a-z_]+)=", GUIDE)) | as_options | in_files == read


@pytest.mark.parametrize("block", FILES)
def test_every_file_of_a_stage_is_one_that_the_app_takes(block: str, tmp_path: Path) -> None:
    (tmp_path / "prod.json").write_text(block, encoding="utf-8")
    stage, options = read_options({"stage": "prod"}.get, tmp_path)
    assert (stage, options.size) == ("prod", "prod")


def test_every_output_is_one_of_the_stacks() -> None:
    made = set(
        re.findall(
            r'^            "([A-Z]\w+)": |CfnOutput\(self, "(\w+)"',
            _source("app", "data", "observability", "network", "api"),
            re.MULTILINE,
        )
    )
    named = set(re.findall(r"OutputKey=='(\w+)'|output `(\w+)`", GUIDE))
    flat = {name for pair in named for name in pair if name}
    printed = {name for pair in made for name in pair if name} | set(_LOGICAL_ID.findall(_source("api")))
    assert {"ApiUrl", "OpenApiDocument", "AlarmTopicArn", "ApiDomainTarget", "CacheTokenSecretArn"} <= flat
    assert flat <= printed


def test_every_variable_is_one_that_the_app_reads() -> None:
    read = {variable_of(name) for name in PASSED_ON}
    printed = set(re.findall(r"`(DPP_[A-Z_]+)`", GUIDE))
    assert {name for name in read if "DECISION" in name} | {"DPP_TIME_ZONE"} <= printed <= read


def test_every_function_and_log_group_is_one_that_is_made() -> None:
    names = {spec.name for spec in functions_of(Part)}
    assert set(re.findall(r"dpp-(?:dev|prod)-(runs?_[a-z]+)", GUIDE)) <= names
    assert '"/dpp/{self._deployment.stage}/api-access"' in _source("api")
    assert "/dpp/dev/api-access" in GUIDE
    assert 'dashboard_name=f"dpp-{names.stage}"' in _source("dashboard")


def test_the_names_to_choose_in_the_console_are_those_of_the_network() -> None:
    source = _source("network")
    assert '"Vpc"' in source
    assert '_FUNCTIONS, _DATA, _WORKSPACES = "Functions", "Data", "Workspaces"' in source
    assert '"Functions of the platform"' in source


@pytest.mark.parametrize("size", SIZES.values(), ids=lambda size: size.name)
def test_the_limits_are_those_of_the_sizes(size: Size) -> None:
    column = {"dev": 2, "prod": 3}[size.name]
    rows = {cells[1]: cells for line in GUIDE.splitlines() if len(cells := [c.strip() for c in line.split("|")]) == 6}
    rate, burst = rows["requests a second, burst"][column].split(", ")
    assert (int(rate), int(burst.replace(",", ""))) == (size.api.rate_per_second, size.api.burst)
    assert int(rows["runs worked on at once"][column]) == size.max_workers
    assert int(rows["homes archived or restored at once"][column]) == size.max_storage


def test_the_first_tenant_has_its_money_and_a_key_that_can_be_revoked(
    world: World, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guide's own commands, run by the function that they invoke (RUN-2, D2)."""
    there = InProcessLambda()
    monkeypatch.setattr("boto3.client", lambda *_args, **_more: there)
    for name, value in world.environ().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DPP_RUN_DEAD_LETTER_QUEUE_URL", world.queue_url)

    def dpp(words: Sequence[str]) -> str:
        result = CliRunner().invoke(app, list(words[1:]))
        assert result.exit_code == 0, result.output + str(result.exception)
        return result.stdout

    [script] = [block for block in BLOCKS if "tenant create" in block]
    printed = [dpp(shlex.split(line)) for line in script.splitlines()]
    token = next(one for one in printed if one.startswith("dpp_")).strip()
    with psycopg.connect(database_url, autocommit=True) as connection:
        caller = api_keys.verify(connection, token)
        assert caller is not None
        assert (caller.tenant_id, caller.rate_limit_per_minute) == ("acme", 60)
        assert world.position(Tenant("acme", token, caller)).balance_usd_micros == 25_000_000
        assert {name for name, _ in there.asked} == {"dpp-dev-operate"}

        (listing,) = (words for words in _commands("dpp") if words[3:5] == ["key", "list"])
        (revoking,) = (words for words in _commands("dpp") if words[3:5] == ["key", "revoke"])
        key_id = str(caller.key_id)
        assert key_id in dpp(listing)
        dpp([*revoking[:-1], key_id])
        assert api_keys.verify(connection, token) is None


def test_the_costs_are_those_of_the_script_and_add_up() -> None:
    """Write them anew with `python -m dpp_cli.docs.costs`."""
    assert costs.written_into(GUIDE) == GUIDE
    table = GUIDE.partition(costs.PLATFORM.begin)[2].partition(costs.END)[0]
    sums: dict[int, list[Decimal]] = {4: [], 6: []}
    for line in table.splitlines():
        cells = [cell.strip().replace(",", "") for cell in line.split("|")]
        if not line.startswith("|") or not cells[4].strip("*").replace(".", "").isdigit():
            continue
        for column, shown in sums.items():
            shown.append(Decimal(cells[column].strip("*")))
    for shown in sums.values():
        fixed, by_use = len(costs.FIXED), len(costs.BY_USE)
        assert sum(shown[:fixed]) == shown[fixed]
        assert sum(shown[fixed + 1 : fixed + 1 + by_use]) == shown[fixed + 1 + by_use]
        assert shown[fixed] + shown[fixed + 1 + by_use] == shown[-1]


def test_the_costs_of_workspaces_add_up() -> None:
    table = GUIDE.partition(costs.WORKSPACES_BILL.begin)[2].partition(costs.END)[0]
    rows = [line.split("|") for line in table.splitlines() if line.startswith("|")][2:]
    assert len(rows) == len(costs.OF_WORKSPACES) + 1
    for column in (4, 6):
        shown = [Decimal(cells[column].strip(" *").replace(",", "")) for cells in rows]
        assert sum(shown[:-1]) == shown[-1]


def _alarms_made(named: ResourceNames, size: Size) -> int:
    """Those that are watched, and those by which a release is taken back."""
    made = functions_of(named.parts)
    releases = [spec for spec in made if size.gradual and spec.is_shifted_gradually]
    return len(list(alarms(named, size))) + len(releases) + (1 if releases else 0)


def test_every_part_of_a_size_has_a_price_and_is_counted_as_it_is_made() -> None:
    for size in SIZES.values():
        assert size.database.instance_class in costs._INSTANCES
        assert size.cache.node_type in costs._NODES
        named = ResourceNames(
            size.name,
            "api",
            "runs",
            "dead",
            "events",
            "dead-events",
            "database",
            ["node"] * (1 + size.cache.replicas),
            parts=frozenset(),
        )
        assert _alarms_made(named, size) == costs.ALARMS[size.name]
        for part, counted in ((Part.WORKSPACES, costs.WORKSPACE_ALARMS), (Part.LIFECYCLE, costs.LIFECYCLE_ALARMS)):
            besides = _alarms_made(replace(named, parts=frozenset([part])), size) - costs.ALARMS[size.name]
            assert besides == counted[size.name]
    from dpp_cdk.stacks.network import _CONTAINER_ENDPOINTS, _CONTROL_ENDPOINTS, _ENDPOINTS

    assert len(_ENDPOINTS) == costs.INTERFACE_ENDPOINTS
    assert len(_CONTROL_ENDPOINTS) + len(_CONTAINER_ENDPOINTS) == costs.WORKSPACE_ENDPOINTS
    assert Path(costs.PATH).name == "deploy.md"


def test_a_page_without_a_place_for_the_costs_is_refused() -> None:
    with pytest.raises(ValueError, match="lacks the marks of a generated section"):
        costs.written_into("# Deploy\n")
