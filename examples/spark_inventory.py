"""Decide a table of tools with Spark: `spark-submit spark_inventory.py BUNDLE SOURCE TARGET`; tables are in Parquet."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from callability.tables import ColumnPolicy, decide, decoded, decoded_schema

bundle, source, target = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
tools = spark.read.parquet(source)
names = tools.columns  # with dots, which Spark would take for fields of a struct
sent = spark.sparkContext.broadcast(Path(bundle).read_bytes())


def decided(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decide the batches of a part where they are."""
    policy = ColumnPolicy.of_bundle(sent.value)
    return map(decoded, decide((batch.rename_columns(names) for batch in batches), policy))


schema = ColumnPolicy.of_bundle(sent.value).reading(to_arrow_schema(tools.schema)).schema
numbered = tools.toDF(*(f"column_{number}" for number in range(len(names))))
numbered.mapInArrow(decided, from_arrow_schema(decoded_schema(schema))).write.parquet(target)
