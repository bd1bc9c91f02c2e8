"""The dashboard, by importance from the top: alarms, money, clients, runs, tickets, events, workspaces, servers."""

from collections.abc import Sequence

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from dpp.platform.observability import metrics
from dpp.platform.observability.metrics import Metric
from dpp_cdk.functions import table
from dpp_cdk.functions.spec import Part
from dpp_cdk.monitoring.alarm_spec import ResourceNames, Watched, platform_metric
from dpp_cdk.monitoring.alarms import OPS_STEPS

_WIDTH = 24
_HEIGHT = 6
_P = ("p50", "p99")


class OperatorDashboard(Construct):
    """`dpp-<stage>` in CloudWatch."""

    def __init__(self, scope: Construct, id: str, names: ResourceNames, alarms: Sequence[cloudwatch.IAlarm]) -> None:
        super().__init__(scope, id)
        board = cloudwatch.Dashboard(self, "Dashboard", dashboard_name=f"dpp-{names.stage}")
        board.add_widgets(
            cloudwatch.AlarmStatusWidget(
                title="Alarms (docs/runbook.md)", alarms=list(alarms), width=_WIDTH, height=_HEIGHT
            )
        )
        rows = (_money, _clients, _runs, _tickets, _auth_errors, _workspaces, _flow, _lifecycle, _functions, _servers)
        for row in filter(None, (build(names) for build in rows)):
            width = _WIDTH // max(1, len(row))
            board.add_widgets(
                *(
                    cloudwatch.GraphWidget(title=title, left=list(left), width=width, height=_HEIGHT)
                    for title, left in row
                )
            )


type Row = Sequence[tuple[str, Sequence[cloudwatch.IMetric]]]


def _money(names: ResourceNames) -> Row:
    def of_reconcile(metric: Metric) -> cloudwatch.IMetric:
        return platform_metric(metric, table.RUN_RECONCILE, names.stage, "Maximum", 1).metric()

    return (
        ("Money: drift in micros (normally 0)", [of_reconcile(metrics.LEDGER_DRIFT_USD_MICROS)]),
        (
            "Money: waiting for an operator (normally 0)",
            [
                of_reconcile(metric)
                for metric in (metrics.RUNS_DISPUTED, metrics.LEDGERS_DISPUTED, metrics.STUCK_CLAIMS)
            ],
        ),
        (
            "Money: settled and refunded, in micros",
            [
                platform_metric(metric, table.RUN_WORKER, names.stage, "Sum").metric()
                for metric in (metrics.SETTLED_USD_MICROS, metrics.REFUNDED_USD_MICROS)
            ],
        ),
    )


def _clients(names: ResourceNames) -> Row:
    dimensions = {"ApiName": names.api, "Stage": names.stage}

    def of_api(name: str, statistic: str) -> cloudwatch.IMetric:
        return Watched("AWS/ApiGateway", name, dimensions, statistic).metric()

    return (
        ("Clients: requests, 4xx, 5xx", [of_api(name, "Sum") for name in ("Count", "4XXError", "5XXError")]),
        ("Clients: latency, p50 p95 p99 in ms", [of_api("Latency", part) for part in ("p50", "p95", "p99")]),
        (
            "Clients: submits and refusals",
            [
                _each(metric, spec.function_name(names.stage))
                for spec in (table.RUNS_SUBMIT, table.RUNS_MCP)
                for metric in (metrics.SUBMITS, metrics.REFUSALS)
            ],
        ),
    )


def _runs(names: ResourceNames) -> Row:
    def of_queue(queue: str, name: str) -> cloudwatch.IMetric:
        return Watched("AWS/SQS", name, {"QueueName": queue}, "Maximum", 1).metric()

    return (
        ("Runs: outcomes", [_each(metrics.RUNS_ENDED, table.RUN_WORKER.function_name(names.stage))]),
        (
            "Runs: waiting, and dead letters (normally 0)",
            [
                of_queue(names.runs_queue, "ApproximateNumberOfMessagesVisible"),
                of_queue(names.dead_letters, "ApproximateNumberOfMessagesVisible"),
            ],
        ),
        ("Runs: age of the oldest, in s", [of_queue(names.runs_queue, "ApproximateAgeOfOldestMessage")]),
    )


def _flow(names: ResourceNames) -> Row:
    if Part.LIFECYCLE not in names.parts:
        return ()
    king, sentinel, general, envoy = (
        spec.function_name(names.stage)
        for spec in (table.LIFECYCLE_KING, table.LIFECYCLE_SENTINEL, table.LIFECYCLE_GENERAL, table.LIFECYCLE_ENVOY)
    )
    webhook = table.LIFECYCLE_WEBHOOK.function_name(names.stage)
    return (
        (
            "Events: polled and delivered; consecutive failed polls (normally 0)",
            [
                _each(metrics.EVENTS_TAKEN_IN, sentinel),
                _each(metrics.EVENTS_TAKEN_IN, webhook),
                _each(metrics.SOURCE_FAILURES, sentinel, "Maximum"),
            ],
        ),
        ("Tasks: observations by result", [_each(metrics.TASK_STEPS, general)]),
        ("Messages: sent, failed (normally 0)", [_each(metrics.MESSAGES_DELIVERED, envoy)]),
        ("Flow: age of the oldest waiting item, in s", [_each(metrics.FLOW_AGE, king, "Maximum")]),
    )


def _lifecycle(names: ResourceNames) -> Row:
    chamberlain = table.LIFECYCLE_CHAMBERLAIN.function_name(names.stage)

    def of_chamberlain(metric: Metric) -> cloudwatch.IMetric:
        return platform_metric(metric, table.LIFECYCLE_CHAMBERLAIN, names.stage, "Maximum").metric()

    return (
        ("Data: rows deleted, by class", [_each(metrics.CLEANUP_DELETED, chamberlain)]),
        (
            "Data: classes stopped by the breaker, given up; threads overdue (normally 0)",
            [
                of_chamberlain(metric)
                for metric in (metrics.CLASSES_TRIPPED, metrics.CLASSES_GIVEN_UP, metrics.THREADS_OVERDUE)
            ],
        ),
        (
            "Data: bytes by class, now and after one period",
            [_each(metrics.DATA_BYTES, chamberlain), _each(metrics.DATA_BYTES_PROJECTED, chamberlain)],
        ),
    )


def _tickets(names: ResourceNames) -> Row:
    def of_cycle(metric: Metric, statistic: str = "Maximum", **own: str) -> cloudwatch.IMetric:
        return platform_metric(metric, table.OPS_CYCLE, names.stage, statistic, 1, **own).metric()

    return (
        (
            "Tickets: open, in progress, stale (normally 0)",
            [of_cycle(m) for m in (metrics.TICKETS_OPEN, metrics.TICKETS_IN_PROGRESS, metrics.TICKETS_STALE)],
        ),
        ("Tickets: age of the oldest waiting one, in s", [of_cycle(metrics.TICKET_AGE)]),
        (
            "Tickets: outcomes, and ended by the reaper (normally 0)",
            [
                _each(metrics.TICKETS_ENDED, table.OPS_CYCLE.function_name(names.stage)),
                of_cycle(metrics.TICKETS_CLEANED, "Sum"),
            ],
        ),
        (
            "Ops cycle: stop, breaker, failed steps (normally 0)",
            [
                of_cycle(metrics.EMERGENCY_STOP),
                of_cycle(metrics.REAPER_BREAKER),
                *(of_cycle(metrics.OPS_STEPS_FAILED, Step=step) for step in OPS_STEPS),
            ],
        ),
    )


def _auth_errors(names: ResourceNames) -> Row:
    def of_publisher(metric: Metric) -> cloudwatch.IMetric:
        return platform_metric(metric, table.AUTH_ERRORS_PUBLISH, names.stage, "Maximum", 1).metric()

    consumer = table.AUTH_ERRORS_CONSUME.function_name(names.stage)
    return (
        (
            "Events: to be published, to be retried, dead (normally 0)",
            [
                of_publisher(metric)
                for metric in (
                    metrics.OUTBOX_WAITING,
                    metrics.EVENTS_RETRYING,
                    metrics.OUTBOX_DEAD,
                    metrics.EVENTS_DEAD,
                )
            ],
        ),
        (
            "Events: outbox lag; from creation to publication and to the end, p50 p99; in s",
            [
                of_publisher(metrics.OUTBOX_LAG),
                *(
                    platform_metric(metrics.OUTBOX_DELAY, table.AUTH_ERRORS_PUBLISH, names.stage, p).metric()
                    for p in _P
                ),
                *(platform_metric(metrics.EVENT_AGE, table.AUTH_ERRORS_CONSUME, names.stage, p).metric() for p in _P),
            ],
        ),
        (
            "Authentication errors: outcomes of messages, decisions",
            [_each(metrics.EVENTS, consumer), _each(metrics.AUTH_ERROR_DECISIONS, consumer)],
        ),
        (
            "Authentication errors: growing clusters, new ones among them",
            [of_publisher(metrics.AUTH_CLUSTERS_GROWING), of_publisher(metrics.AUTH_CLUSTERS_NEW)],
        ),
    )


def _workspaces(names: ResourceNames) -> Row:
    if Part.WORKSPACES not in names.parts:
        return ()

    def of_control(metric: Metric, statistic: str = "Maximum") -> cloudwatch.IMetric:
        return platform_metric(metric, table.WORKSPACES_CONTROL, names.stage, statistic, 1).metric()

    return (
        (
            "Workspaces: not in their desired state, in error, homes lost (normally 0)",
            [
                of_control(metric)
                for metric in (metrics.WORKSPACES_UNSETTLED, metrics.WORKSPACES_IN_ERROR, metrics.WORKSPACES_LOST)
            ],
        ),
        ("Workspaces: age of the oldest operation, in s", [of_control(metrics.WORKSPACE_OPERATION_AGE)]),
        (
            "Workspaces: steps by kind and operation",
            [
                _each(metrics.WORKSPACE_STEPS, spec.function_name(names.stage))
                for spec in (table.WORKSPACES_CONTROL, table.WORKSPACES_STORAGE)
            ],
        ),
        (
            "Workspaces: observed, changed, outages (normally 0)",
            [
                of_control(metrics.FLEET_OBSERVED, "Sum"),
                of_control(metrics.FLEET_CHANGED, "Sum"),
                of_control(metrics.WORKSPACE_OUTAGES, "Sum"),
            ],
        ),
    )


def _functions(names: ResourceNames) -> Row:
    def each(name: str, statistic: str) -> Sequence[cloudwatch.IMetric]:
        return [
            Watched("AWS/Lambda", name, {"FunctionName": spec.function_name(names.stage)}, statistic).metric()
            for spec in table.functions_of(names.parts)
        ]

    return (
        ("Functions: errors (normally 0)", each("Errors", "Sum")),
        ("Functions: throttles (normally 0)", each("Throttles", "Sum")),
        ("Functions: duration, p95 in ms", each("Duration", "p95")),
        ("Functions: concurrent invocations", each("ConcurrentExecutions", "Maximum")),
    )


def _servers(names: ResourceNames) -> Row:
    row: list[tuple[str, Sequence[cloudwatch.IMetric]]] = []
    if names.database:
        dimensions = {"DBInstanceIdentifier": names.database}
        row += [
            (f"Postgres: {name}", [Watched("AWS/RDS", name, dimensions, "Average").metric()])
            for name in ("CPUUtilization", "DatabaseConnections", "FreeStorageSpace")
        ]
    if names.cache_nodes:
        row += [
            (
                f"Valkey: {name}",
                [
                    Watched("AWS/ElastiCache", name, {"CacheClusterId": node}, "Average").metric()
                    for node in names.cache_nodes
                ],
            )
            for name in ("DatabaseMemoryUsagePercentage", "EngineCPUUtilization", "CurrConnections")
        ]
    return row


def _each(metric: Metric, function: str, statistic: str = "Sum") -> cloudwatch.IMetric:
    """The metric for each combination of dimension values that has been emitted."""
    schema = ",".join((metrics.NAMESPACE, metrics.FUNCTION, *metric.dimensions))
    search = f'{{{schema}}} MetricName="{metric.name}" {metrics.FUNCTION}="{function}"'
    return cloudwatch.MathExpression(
        expression=f"SEARCH('{search}', '{statistic}')", using_metrics={}, label=metric.name
    )
