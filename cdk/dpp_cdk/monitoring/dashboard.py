"""One dashboard, read from the top: is anything wrong, is the money right, do clients get answers, do runs, tickets
and events end."""

from collections.abc import Sequence

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from dpp.platform.observability import metrics
from dpp.platform.observability.metrics import Metric
from dpp_cdk.functions.spec import Part
from dpp_cdk.functions.table import (
    AUTH_ERRORS_CONSUME,
    AUTH_ERRORS_PUBLISH,
    LIFECYCLE_CHAMBERLAIN,
    LIFECYCLE_ENVOY,
    LIFECYCLE_GENERAL,
    LIFECYCLE_KING,
    LIFECYCLE_SENTINEL,
    LIFECYCLE_WEBHOOK,
    OPS_CYCLE,
    RUN_RECONCILE,
    RUN_WORKER,
    RUNS_MCP,
    RUNS_SUBMIT,
    WORKSPACES_CONTROL,
    WORKSPACES_STORAGE,
    functions_of,
)
from dpp_cdk.monitoring.alarm_spec import Named, Watched, of_ours
from dpp_cdk.monitoring.alarms import OPS_STEPS

_WIDTH = 24
_HEIGHT = 6
_P = ("p50", "p99")


class OperatorDashboard(Construct):
    """`dpp-<stage>` in CloudWatch."""

    def __init__(self, scope: Construct, id: str, named: Named, alarms: Sequence[cloudwatch.IAlarm]) -> None:
        super().__init__(scope, id)
        board = cloudwatch.Dashboard(self, "Dashboard", dashboard_name=f"dpp-{named.stage}")
        board.add_widgets(
            cloudwatch.AlarmStatusWidget(
                title="Is anything wrong? (docs/runbook.md)",
                alarms=list(alarms),
                width=_WIDTH,
                height=_HEIGHT,
            )
        )
        rows = (
            _money,
            _clients,
            _runs,
            _tickets,
            _auth_errors,
            _workspaces,
            _flow,
            _lifecycle,
            _functions,
            _servers,
        )
        for row in filter(None, (rendered(named) for rendered in rows)):
            width = _WIDTH // max(1, len(row))
            board.add_widgets(
                *(
                    cloudwatch.GraphWidget(title=title, left=list(left), width=width, height=_HEIGHT)
                    for title, left in row
                )
            )


type Row = Sequence[tuple[str, Sequence[cloudwatch.IMetric]]]


def _money(named: Named) -> Row:
    def of_reconcile(metric: Metric) -> cloudwatch.IMetric:
        return of_ours(metric, RUN_RECONCILE, named.stage, "Maximum", 1).metric()

    return (
        ("Money: drift, in micros (0)", [of_reconcile(metrics.LEDGER_DRIFT_USD_MICROS)]),
        (
            "Money: waiting for an operator (0)",
            [
                of_reconcile(metric)
                for metric in (metrics.RUNS_DISPUTED, metrics.LEDGERS_DISPUTED, metrics.STUCK_CLAIMS)
            ],
        ),
        (
            "Money: settled and given back, in micros",
            [
                of_ours(metric, RUN_WORKER, named.stage, "Sum").metric()
                for metric in (metrics.SETTLED_USD_MICROS, metrics.REFUNDED_USD_MICROS)
            ],
        ),
    )


def _clients(named: Named) -> Row:
    dimensions = {"ApiName": named.api, "Stage": named.stage}

    def of_api(name: str, statistic: str) -> cloudwatch.IMetric:
        return Watched("AWS/ApiGateway", name, dimensions, statistic).metric()

    return (
        ("Clients: requests, 4xx, 5xx", [of_api(name, "Sum") for name in ("Count", "4XXError", "5XXError")]),
        ("Clients: latency, p50 p95 p99 in ms", [of_api("Latency", part) for part in ("p50", "p95", "p99")]),
        (
            "Clients: submits and refusals",
            [
                _each(metric, spec.function_name(named.stage))
                for spec in (RUNS_SUBMIT, RUNS_MCP)
                for metric in (metrics.SUBMITS, metrics.REFUSALS)
            ],
        ),
    )


def _runs(named: Named) -> Row:
    def of_queue(queue: str, name: str) -> cloudwatch.IMetric:
        return Watched("AWS/SQS", name, {"QueueName": queue}, "Maximum", 1).metric()

    return (
        (
            "Runs: how they end",
            [_each(metrics.RUNS_ENDED, RUN_WORKER.function_name(named.stage))],
        ),
        (
            "Runs: waiting, and dead letters (0)",
            [
                of_queue(named.runs_queue, "ApproximateNumberOfMessagesVisible"),
                of_queue(named.dead_letters, "ApproximateNumberOfMessagesVisible"),
            ],
        ),
        ("Runs: age of the oldest, in s", [of_queue(named.runs_queue, "ApproximateAgeOfOldestMessage")]),
    )


def _flow(named: Named) -> Row:
    if Part.LIFECYCLE not in named.parts:
        return ()
    king, sentinel, general, envoy = (
        spec.function_name(named.stage)
        for spec in (LIFECYCLE_KING, LIFECYCLE_SENTINEL, LIFECYCLE_GENERAL, LIFECYCLE_ENVOY)
    )
    webhook = LIFECYCLE_WEBHOOK.function_name(named.stage)
    return (
        (
            "Events: polled and delivered; polls that failed in a row (0)",
            [
                _each(metrics.EVENTS_TAKEN_IN, sentinel),
                _each(metrics.EVENTS_TAKEN_IN, webhook),
                _each(metrics.SOURCE_FAILURES, sentinel, "Maximum"),
            ],
        ),
        ("Tasks: looks, by what they did", [_each(metrics.TASK_STEPS, general)]),
        ("Messages: sent, failed (0)", [_each(metrics.MESSAGES_DELIVERED, envoy)]),
        ("Flow: age of what waits, in s", [_each(metrics.FLOW_AGE, king, "Maximum")]),
    )


def _lifecycle(named: Named) -> Row:
    chamberlain = LIFECYCLE_CHAMBERLAIN.function_name(named.stage)

    def of_chamberlain(metric: Metric) -> cloudwatch.IMetric:
        return of_ours(metric, LIFECYCLE_CHAMBERLAIN, named.stage, "Maximum").metric()

    return (
        ("Data: rows deleted, by class", [_each(metrics.CLEANUP_DELETED, chamberlain)]),
        (
            "Data: classes stopped by the breaker, given up; threads overdue (0)",
            [
                of_chamberlain(metric)
                for metric in (metrics.CLASSES_TRIPPED, metrics.CLASSES_GIVEN_UP, metrics.THREADS_OVERDUE)
            ],
        ),
        (
            "Data: bytes by class, and once its period is full",
            [_each(metrics.DATA_BYTES, chamberlain), _each(metrics.DATA_BYTES_PROJECTED, chamberlain)],
        ),
    )


def _tickets(named: Named) -> Row:
    def of_cycle(metric: Metric, statistic: str = "Maximum", **own: str) -> cloudwatch.IMetric:
        return of_ours(metric, OPS_CYCLE, named.stage, statistic, 1, **own).metric()

    return (
        (
            "Tickets: open, in progress, stale (0)",
            [of_cycle(m) for m in (metrics.TICKETS_OPEN, metrics.TICKETS_IN_PROGRESS, metrics.TICKETS_STALE)],
        ),
        ("Tickets: age of the oldest that waits, in s", [of_cycle(metrics.TICKET_AGE)]),
        (
            "Tickets: how they end, and what the reaper ended (0)",
            [
                _each(metrics.TICKETS_ENDED, OPS_CYCLE.function_name(named.stage)),
                of_cycle(metrics.TICKETS_CLEANED, "Sum"),
            ],
        ),
        (
            "Ops cycle: stop, breaker, failed steps (0)",
            [
                of_cycle(metrics.EMERGENCY_STOP),
                of_cycle(metrics.REAPER_BREAKER),
                *(of_cycle(metrics.OPS_STEPS_FAILED, Step=step) for step in OPS_STEPS),
            ],
        ),
    )


def _auth_errors(named: Named) -> Row:
    def of_publisher(metric: Metric) -> cloudwatch.IMetric:
        return of_ours(metric, AUTH_ERRORS_PUBLISH, named.stage, "Maximum", 1).metric()

    consumer = AUTH_ERRORS_CONSUME.function_name(named.stage)
    return (
        (
            "Events: to be published, to be tried again, dead (0)",
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
            "Events: lag of the outbox; from their beginning to publication and end, p50 p99; in s",
            [
                of_publisher(metrics.OUTBOX_LAG),
                *(of_ours(metrics.OUTBOX_DELAY, AUTH_ERRORS_PUBLISH, named.stage, p).metric() for p in _P),
                *(of_ours(metrics.EVENT_AGE, AUTH_ERRORS_CONSUME, named.stage, p).metric() for p in _P),
            ],
        ),
        (
            "Authentication errors: how messages end, what is decided",
            [_each(metrics.EVENTS, consumer), _each(metrics.AUTH_ERROR_DECISIONS, consumer)],
        ),
        (
            "Authentication errors: clusters that grow, new ones among them",
            [of_publisher(metrics.AUTH_CLUSTERS_GROWING), of_publisher(metrics.AUTH_CLUSTERS_NEW)],
        ),
    )


def _workspaces(named: Named) -> Row:
    if Part.WORKSPACES not in named.parts:
        return ()

    def of_control(metric: Metric, statistic: str = "Maximum") -> cloudwatch.IMetric:
        return of_ours(metric, WORKSPACES_CONTROL, named.stage, statistic, 1).metric()

    return (
        (
            "Workspaces: not as wanted yet, in error (0), homes lost (0)",
            [
                of_control(metric)
                for metric in (
                    metrics.WORKSPACES_UNSETTLED,
                    metrics.WORKSPACES_IN_ERROR,
                    metrics.WORKSPACES_LOST,
                )
            ],
        ),
        ("Workspaces: age of the oldest operation, in s", [of_control(metrics.WORKSPACE_OPERATION_AGE)]),
        (
            "Workspaces: steps, by kind and operation",
            [
                _each(metrics.WORKSPACE_STEPS, spec.function_name(named.stage))
                for spec in (WORKSPACES_CONTROL, WORKSPACES_STORAGE)
            ],
        ),
        (
            "Workspaces: looked at, changed, unanswered (0)",
            [
                of_control(metrics.FLEET_OBSERVED, "Sum"),
                of_control(metrics.FLEET_CHANGED, "Sum"),
                of_control(metrics.WORKSPACE_OUTAGES, "Sum"),
            ],
        ),
    )


def _functions(named: Named) -> Row:
    def each(name: str, statistic: str) -> Sequence[cloudwatch.IMetric]:
        return [
            Watched("AWS/Lambda", name, {"FunctionName": spec.function_name(named.stage)}, statistic).metric()
            for spec in functions_of(named.parts)
        ]

    return (
        ("Functions: errors (0)", each("Errors", "Sum")),
        ("Functions: throttles (0)", each("Throttles", "Sum")),
        ("Functions: duration, p95 in ms", each("Duration", "p95")),
        ("Functions: at once", each("ConcurrentExecutions", "Maximum")),
    )


def _servers(named: Named) -> Row:
    row: list[tuple[str, Sequence[cloudwatch.IMetric]]] = []
    if named.database:
        dimensions = {"DBInstanceIdentifier": named.database}
        row += [
            (f"Postgres: {name}", [Watched("AWS/RDS", name, dimensions, "Average").metric()])
            for name in ("CPUUtilization", "DatabaseConnections", "FreeStorageSpace")
        ]
    if named.cache_nodes:
        row += [
            (
                f"Valkey: {name}",
                [
                    Watched("AWS/ElastiCache", name, {"CacheClusterId": node}, "Average").metric()
                    for node in named.cache_nodes
                ],
            )
            for name in ("DatabaseMemoryUsagePercentage", "EngineCPUUtilization", "CurrConnections")
        ]
    return row


def _each(metric: Metric, function: str, statistic: str = "Sum") -> cloudwatch.IMetric:
    """The metric by the values of its dimensions, whichever have been seen."""
    schema = ",".join((metrics.NAMESPACE, metrics.FUNCTION, *metric.dimensions))
    search = f'{{{schema}}} MetricName="{metric.name}" {metrics.FUNCTION}="{function}"'
    return cloudwatch.MathExpression(
        expression=f"SEARCH('{search}', '{statistic}')", using_metrics={}, label=metric.name
    )
