"""What AWS allows, with the page that says so, and the servers that one can have of it; data alone.

Looked up in stored copies of public pages of 2025 and 2026, without an account. A price of `costs.Price` that is not
confirmed was found nowhere, or not everywhere alike.
"""

from dataclasses import dataclass
from decimal import Decimal

from dpp_cli.docs import costs
from dpp_cli.docs.costs import Price

GIB = 2**30
TIB = 2**40

API_PER_SECOND = 10_000
API_PAGE = "https://docs.aws.amazon.com/apigateway/latest/developerguide/limits.html"
FUNCTIONS_AT_ONCE = 1_000
FUNCTIONS_PAGE = "https://docs.aws.amazon.com/lambda/latest/dg/lambda-concurrency.html"
ENVIRONMENTS_PER_SECOND = 100
"""1,000 in ten seconds, each function for itself."""
ENVIRONMENTS_PAGE = "https://docs.aws.amazon.com/lambda/latest/dg/scaling-behavior.html"
SOURCE_AT_ONCE = 1_000
"""The most that may be set as an event source's maximum concurrency."""
SOURCE_FIRST = 5
SOURCE_MORE_PER_SECOND = 300 / 60
SOURCE_PAGE = "https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html"
POLLERS, CALLS_A_POLLER = 2_000, 10
"""Of provisioned mode, which excludes a maximum concurrency; it may have 1,000 calls more each minute."""
QUEUE_TAKEN = 120_000
QUEUE_PAGE = "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-queues.html"
PUTS_PER_SECOND = 3_500
PUTS_PAGE = "https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance.html"
DATABASE_BYTES = 64 * TIB
DATABASE_IOPS = 256_000
"""io2 Block Express."""
DATABASE_PAGE = "https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/CHAP_Storage.html"
DATABASE_CONNECTIONS = 5_000
"""The default formula's own bound, whatever the memory."""
CONNECTIONS_PAGE = "https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/CHAP_Limits.html"
IOPS_OF_GP3, IOPS_OF_SMALL_GP3, SMALL_GIB = 12_000, 3_000, 400
"""Included in the price of gp3's gigabytes, from 400 GiB on and below."""
WAL_BYTES_PER_SECOND = 20_000 / 8 * 1e6
"""What lies between db.r7g.16xlarge and its storage."""
CLASSES_PAGE = "https://docs.aws.amazon.com/AmazonRDS/latest/UserGuide/Concepts.DBInstanceClass.html"
XIDS = 2**31
FREEZE_XIDS = 200_000_000
"""`autovacuum_freeze_max_age`, if nothing is said: so many ids on, a table is read whole."""
XIDS_PAGE = "https://www.postgresql.org/docs/17/routine-vacuuming.html"
CACHE_NODES, CACHE_SLOTS = 500, 16_384
CACHE_PAGE = "https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/Shards.html"
NODES_PAGE = "https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/CacheNodes.SupportedTypes.html"


@dataclass(frozen=True, slots=True)
class DatabaseClass:
    """An instance class of RDS."""

    name: str
    vcpus: int
    memory_gib: int
    price: Price

    @property
    def connections(self) -> int:
        """By RDS's default formula."""
        return min(self.memory_gib * GIB // 9_531_392, DATABASE_CONNECTIONS)


@dataclass(frozen=True, slots=True)
class CacheNode:
    """A node type of ElastiCache. `memory_gib`: what it may hold."""

    name: str
    memory_gib: float
    price: Price


def _database(name: str, vcpus: int, memory_gib: int, usd: str | None = None) -> DatabaseClass:
    """Within a family the price follows the size."""
    large = costs.database_price("m7g.large")
    return DatabaseClass(
        name,
        vcpus,
        memory_gib,
        Price(Decimal(usd) if usd else large.usd * vcpus / 2, "hour", confirmed=False),
    )


def _node(size: str, memory_gib: float, larges: int) -> CacheNode:
    """Valkey's price is four fifths of Redis OSS's 0.219 for r7g.large, and follows the size."""
    return CacheNode(
        f"cache.r7g.{size}",
        memory_gib,
        Price(Decimal("0.1752") * larges, "hour", confirmed=False),
    )


DATABASES = (
    _database("m7g.large", 2, 8),
    _database("m7g.xlarge", 4, 16),
    _database("m7g.2xlarge", 8, 32),
    _database("m7g.4xlarge", 16, 64),
    _database("m7g.8xlarge", 32, 128),
    _database("r7g.16xlarge", 64, 512, "7.651"),
)
"""Small ones first."""
NODES = (
    CacheNode("cache.m7g.large", 6.38, costs.node_price("cache.m7g.large")),
    _node("large", 13.07, 1),
    _node("xlarge", 26.32, 2),
    _node("2xlarge", 52.82, 4),
    _node("4xlarge", 105.81, 8),
    _node("8xlarge", 209.55, 16),
    _node("16xlarge", 419.09, 32),
)
"""Small ones first."""

AURORA_GB_MONTH = Price(Decimal("0.10"), "GB")
AURORA_MILLION_IOS = Price(Decimal("0.20"), "million I/Os")
AURORA_IO_BYTES = 4_096
"""A write of so many bytes of the log is one I/O."""
