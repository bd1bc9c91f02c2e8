# Every target works on a machine with Python 3 and make, from an empty clone: what is missing is installed into
# .venv and .dpp, as the committed locks say. No Docker.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help bootstrap demo test check lint format types synth e2e sim soak soak-auth-errors soak-workspaces crash mutants outside bench bench-submit bench-cold bench-scans bench-outbox bench-cleanup bench-runs bench-budget bench-load bench-scale up down status logs layers openapi clean

BIN := .venv/bin
# The stack of the e2e tests is not the one that a developer works with.
E2E_STATE := $(CURDIR)/.dpp/e2e
SOAK_STATE := $(CURDIR)/.dpp/soak
LOAD_STATE := $(CURDIR)/.dpp/load
# Where public test suites' data lies, or is fetched to.
OUTSIDE ?= $(if $(wildcard ../shared/outside),../shared/outside,.dpp/outside)
# Byte code halves the start of every command after the first.
unexport PYTHONDONTWRITEBYTECODE

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

bootstrap: ## Install everything that Python needs into .venv (every other target does it, too)
	@sh cli/bootstrap.sh

demo: bootstrap ## Bring the local stack up, send real runs through it, show what they cost
	@$(BIN)/dpp demo

test: bootstrap ## Run every test that needs no deployed stack, in parallel
	$(BIN)/pytest -n auto --dist worksteal -m "not e2e" --ignore tests/e2e

check: lint types test synth e2e ## Everything that CI runs

lint: bootstrap ## Check style, formatting, and which package may import which
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports

format: bootstrap ## Format, and fix what can be fixed
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

types: bootstrap ## Check the types
	$(BIN)/mypy

synth: bootstrap ## Write the CloudFormation templates of both sizes into .dpp/build/cdk.out, checked by cdk-nag
	@$(BIN)/dpp synth

e2e: bootstrap ## Deploy a stack of its own, run the end-to-end tests over HTTP, take it down
	@export DPP_LOCAL_STATE="$(E2E_STATE)"; \
	trap '$(BIN)/dpp local down' EXIT; trap 'exit 130' INT TERM; \
	outside="$$($(BIN)/python -m tests.e2e.outside)" && eval "$$outside"; \
	$(BIN)/dpp local down --wipe && $(BIN)/dpp local up && $(BIN)/pytest -m e2e

SEEDS ?= 100000
sim: bootstrap ## Simulate SEEDS schedules of races, crashes and other faults on the real use cases
	$(BIN)/python -m tests.sim --seeds $(SEEDS)

MINUTES ?= 10
soak: bootstrap ## Run clients for MINUTES on a separate stack while its processes are killed; check every micro-dollar
	@export DPP_LOCAL_STATE="$(SOAK_STATE)"; \
	trap '$(BIN)/dpp local down' EXIT; trap 'exit 130' INT TERM; \
	$(BIN)/dpp local down --wipe && $(BIN)/dpp local up && $(BIN)/python -m tests.soak --minutes $(MINUTES)

ERRORS ?= 2000
soak-auth-errors: bootstrap ## Report ERRORS authentication errors to a separate stack while publisher and consumer are killed
	@export DPP_LOCAL_STATE="$(SOAK_STATE)"; \
	trap '$(BIN)/dpp local down' EXIT; trap 'exit 130' INT TERM; \
	$(BIN)/dpp local down --wipe && $(BIN)/dpp local up && $(BIN)/python -m tests.soak.auth_errors --errors $(ERRORS)

WORKSPACES ?= 200
soak-workspaces: bootstrap ## Archive and restore WORKSPACES homes while control and storage processes are killed
	$(BIN)/python -m tests.soak.workspaces --workspaces $(WORKSPACES)

crash: bootstrap ## Crash every call of every path in every way (`make test` leaves out what leaves the same behind)
	DPP_CRASHES=all $(BIN)/pytest -n auto --dist worksteal -q tests/crash tests/retention/test_crashes.py tests/lifecycle/test_crashes.py tests/tickets/test_crashes.py tests/auth_errors/test_crashes.py tests/auth_errors/test_kills.py tests/workspaces/test_crashes.py tests/workspaces/test_kills.py

mutants: bootstrap ## Put each deliberate bug into a copy of the sources; a test or the simulation must catch it
	$(BIN)/python -m tests.mutants

outside: bootstrap ## Run public suites' data through the packs; OUTSIDE=folder has the data, else it is fetched
	$(BIN)/python -m tests.outside $(OUTSIDE) $(SUITES)

bench bench-submit: bootstrap ## Measure a submit, its repetition and a read against their floors
	$(BIN)/python -m bench.submit

bench-cold: bootstrap ## Measure each function's cold start against its floor and a cookbook's handler
	$(BIN)/python -m bench.cold

bench-scans: bootstrap ## Measure whether scans and ticks cost only what is due, at 10^4 to 10^6 rows
	$(BIN)/python -m bench.scans
	$(BIN)/python -m bench.run_scans
	$(BIN)/python -m bench.workspace_scans

OUTBOX ?=
bench-outbox: bootstrap ## Compare the outbox's throughput and delay with a task queue on Postgres (OUTBOX=--quick)
	$(BIN)/python -m bench.outbox $(OUTBOX)

RUNS ?=
bench-runs: bootstrap ## Compare runs a second, submit to COMMITTED, with task queues and workflows (RUNS=--quick)
	$(BIN)/python -m bench.runs $(RUNS)

BUDGET ?=
bench-budget: bootstrap ## Compare reserve and settle with a ledger in Postgres and LiteLLM's algorithm (BUDGET=--quick)
	$(BIN)/python -m bench.budget $(BUDGET)

CLEANUP ?=
bench-cleanup: bootstrap ## Measure submits beside a cleanup of 10^6 rows, and its rate (CLEANUP=--quick, =--sweep)
	$(BIN)/python -m bench.cleanup $(CLEANUP)

LOAD ?=
bench-load: bootstrap ## Load a separate stack up to the knee and to twice the knee; no run lost or doubled (LOAD=--quick)
	@export DPP_LOCAL_STATE="$(LOAD_STATE)"; \
	trap '$(BIN)/dpp local down' EXIT; trap 'exit 130' INT TERM; \
	$(BIN)/dpp local down --wipe && $(BIN)/dpp local up && $(BIN)/python -m bench.load $(LOAD)

SCALE ?=
bench-scale: bootstrap ## Calculate what 10^8 runs a day need, cost and saturate first (SCALE=--measure, =--write)
	$(BIN)/python -m bench.scale $(SCALE)

up: bootstrap ## Start the local stack and deploy to it
	@$(BIN)/dpp local up

down: bootstrap ## End the local stack (rows and budgets stay)
	@$(BIN)/dpp local down

status: bootstrap ## Show what of the local stack runs where
	@$(BIN)/dpp local status

logs: bootstrap ## Follow the logs of the local stack
	@$(BIN)/dpp local logs --follow

openapi: bootstrap ## Write docs/openapi.json and the schema of the reaper's report from the code
	$(BIN)/python -m dpp_cli.docs.openapi
	$(BIN)/python -m dpp_cli.docs.report_schema

layers: bootstrap ## Build the Lambda layers into .dpp/build/layers
	@$(BIN)/dpp layers

clean: bootstrap ## End the local stacks; delete their data, what was built, and caches (installed tools stay)
	@$(BIN)/dpp local down --wipe
	@DPP_LOCAL_STATE="$(E2E_STATE)" $(BIN)/dpp local down --wipe
	@DPP_LOCAL_STATE="$(SOAK_STATE)" $(BIN)/dpp local down --wipe
	@DPP_LOCAL_STATE="$(LOAD_STATE)" $(BIN)/dpp local down --wipe
	rm -rf .dpp/local .dpp/e2e .dpp/soak .dpp/load .dpp/build .mypy_cache .ruff_cache .import_linter_cache .hypothesis
