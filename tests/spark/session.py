"""A Spark session for tests: small, quiet, and gone with the process."""

from __future__ import annotations

import os
import sys
from contextlib import chdir
from pathlib import Path
from typing import Any

from tests.corpus import ROOT
from tests.engine.java import find_java
from tests.engine.recovered import QUICK_START

QUICK_JAVA = " ".join(QUICK_START[:4])

LOGGING = """\
status = off
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %c: %m%n%ex
"""


def open_session(folder: Path, master: str, **more: str) -> Any:
    """Start a new session that logs to `folder`/spark.log.

    Raises:
        NoJavaError: there is no JDK; the text says what to install.
    """
    # Relative paths in the pages start at the JVM's working directory.
    with chdir(ROOT):
        return _builder(folder, more).master(master).getOrCreate()


def connect_session(folder: Path) -> Any:
    """Start a server in this process, and return a session that reaches it over Spark Connect.

    No classic session may have been started in this process. The packages of pyspark[connect] must
    be there; `scripts/connect.sh` installs them.
    """
    return _builder(folder, {}).remote("local[2]").getOrCreate()


def _builder(folder: Path, more: dict[str, str]) -> Any:
    """Return the builder of a session that logs to `folder`/spark.log."""
    java = find_java().resolve()
    os.environ["JAVA_HOME"] = str(java.parents[1])
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    logging = folder / "log4j2.properties"
    logging.write_text(LOGGING.format(log=folder / "spark.log"))
    log_option = f"-Dlog4j2.configurationFile={logging.as_uri()}"
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"{QUICK_JAVA} {log_option}",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.executor.extraJavaOptions": QUICK_JAVA,
        "spark.local.dir": str(folder),
        "spark.python.unix.domain.socket.enabled": "true",
        # Plans that change while they run, and compiled ones, cost more than these queries gain.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    } | more
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("je-tools")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder
