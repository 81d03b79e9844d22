"""Filesystems that Hadoop knows, such as s3a, hdfs, abfss, gs and file, by URL.

The command uses the JVM of Spark. A Python worker has no way to the JVM of its executor, so a task that needs a
filesystem starts a small one with the same classes and settings, and ends it when it has its files.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark.sql import SparkSession

URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
AUTHORITY = re.compile(rf"{URL.pattern}[^/]*")
PACKAGES = {
    "s3a": "org.apache.hadoop:hadoop-aws",
    "abfs": "org.apache.hadoop:hadoop-azure",
    "abfss": "org.apache.hadoop:hadoop-azure",
    "gs": "org.apache.hadoop:hadoop-gcp",
}
"""What has the filesystem of a scheme, in the version of Spark's Hadoop."""
REASON = re.compile(r"\((?!No such file or directory\))([A-Z][A-Za-z ]+)\)$")
"""Why a file cannot be opened, at the end of what Java's FileNotFoundException says of one that is there."""
EXECUTOR_CLASSES = "spark.executor.extraClassPath"
ENDS_WITHIN_S = 30
JVM_OPTIONS = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]


class Entry(NamedTuple):
    """A file or a directory in a directory."""

    name: str
    is_directory: bool
    size_bytes: int


class Site(NamedTuple):
    """What a task needs to reach the filesystems of the command."""

    settings: str
    """Hadoop's, as XML. Secrets are among them."""
    classes: str
    """`spark.executor.extraClassPath`."""

    @contextmanager
    def opened(self) -> Iterator[Hadoop]:
        """Hadoop in a JVM of its own."""
        gateway = _launched(os.pathsep.join(filter(None, [*_classes(), self.classes])))
        try:
            settings = gateway.jvm.org.apache.hadoop.conf.Configuration(False)
            settings.addResource(gateway.jvm.java.io.ByteArrayInputStream(self.settings.encode()))
            yield Hadoop(gateway.jvm, settings)
        finally:
            with suppress(Exception):  # it may have been killed
                gateway.shutdown()
            process = gateway.java_process
            with suppress(OSError):
                process.stdin.close()
            try:
                process.wait(ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _launched(classes: str) -> JavaGateway:
    """A JVM. Raises OSError if it does not start."""
    from py4j.java_gateway import JavaGateway

    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    try:
        return JavaGateway.launch_gateway(
            jarpath=_py4j(),
            classpath=classes,
            javaopts=JVM_OPTIONS,
            die_on_exit=True,
            enable_auth=True,
            java_path=java,
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it ended at once"
        told = f"Java does not start on this worker: `{java}`: {reason}: set JAVA_HOME there, and leave it memory"
        raise OSError(told) from error


def _jars() -> Path:
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home()) / "jars"


def _py4j() -> str:
    return str(next(_jars().glob("py4j-*.jar")))


def _classes() -> list[str]:
    """Where the classes of an executor are: Spark's, those of YARN's containers, those of `--packages`."""
    from pyspark import SparkFiles

    return [f"{SparkFiles.getRootDirectory()}/*", os.environ.get("CLASSPATH", ""), f"{_jars()}/*"]


class Hadoop:
    """Hadoop's `FileSystem`. Every method raises OSError with the reason."""

    def __init__(self, jvm: Any, settings: Any) -> None:
        self._jvm = jvm
        self._settings = settings

    @classmethod
    def of(cls, spark: SparkSession) -> Hadoop:
        """In the JVM of a session."""
        return cls(spark._jvm, spark.sparkContext._jsc.hadoopConfiguration())

    def site(self, classes: str) -> Site:
        """What tasks need; `classes` is the executors' `spark.executor.extraClassPath`."""
        written = self._jvm.java.io.StringWriter()
        self._settings.writeXml(written)
        return Site(written.toString(), classes)

    @contextmanager
    def _asked(self, url: str) -> Iterator[tuple[Any, Any]]:
        """The filesystem and the path of a URL."""
        from py4j.protocol import Py4JError, Py4JJavaError

        try:
            path = self._jvm.org.apache.hadoop.fs.Path(f"{url}/" if AUTHORITY.fullmatch(url) else url)
            yield path.getFileSystem(self._settings), path
        except Py4JJavaError as error:
            raise self._error(url, error.java_exception) from error
        except Py4JError as error:
            raise OSError(f"`{url}`: the Java of this worker has ended: {error}") from error

    def _error(self, url: str, thrown: Any) -> OSError:
        kind = thrown.getClass().getSimpleName()
        said = str(thrown.getMessage() or kind).partition("\n")[0]
        match = URL.match(url)
        scheme = match[1].lower() if match else ""
        if kind == "FileNotFoundException" and (denied := REASON.search(said)) is not None:
            return OSError(f"`{url}`: {denied[1]}")
        if kind == "FileNotFoundException":
            return FileNotFoundError(f"`{url}`: there is no such file or directory")
        if kind == "UnsupportedFileSystemException" or "ClassNotFoundException" in said:
            version = self._jvm.org.apache.hadoop.util.VersionInfo.getVersion()
            package = PACKAGES.get(scheme)
            remedy = "write s3a://" if scheme == "s3" else "give its package with --packages"
            remedy = f"give --packages {package}:{version}" if package else remedy
            return OSError(f"`{url}`: Spark has no filesystem for {scheme}://: {remedy}")
        return OSError(f"`{url}`: {said if kind in said else f'{kind}: {said}'}")

    def entries(self, url: str) -> list[Entry]:
        """What is in a directory, by name. Of a file: the file."""
        with self._asked(url) as (filesystem, path):
            found = filesystem.listStatus(path)
            listed = [Entry(one.getPath().getName(), one.isDirectory(), one.getLen()) for one in found]
        return sorted(listed)

    def is_directory(self, url: str) -> bool:
        """Raises FileNotFoundError if there is nothing."""
        with self._asked(url) as (filesystem, path):
            return bool(filesystem.getFileStatus(path).isDirectory())

    def fetch(self, url: str, target: Path) -> None:
        """Copy a file to this machine."""
        local = self._jvm.org.apache.hadoop.fs.Path(local_url(target))
        with self._asked(url) as (filesystem, path):
            filesystem.copyToLocalFile(False, path, local, True)
        if not target.is_file():
            raise OSError(f"`{url}`: Java did not write it to `{target}`: a name outside ASCII needs LC_ALL=C.UTF-8")

    def read(self, url: str) -> bytes:
        """The content of a small file."""
        with self._asked(url) as (filesystem, path):
            stream = filesystem.open(path)
            try:
                return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()

    def write(self, url: str, content: bytes) -> None:
        """Write a small file, in place of one that is there."""
        with self._asked(url) as (filesystem, path):
            stream = filesystem.create(path, True)
            stream.write(content)
            stream.close()

    def make_directory(self, url: str) -> None:
        """Also those above it."""
        with self._asked(url) as (filesystem, path):
            filesystem.mkdirs(path)

    def rename(self, url: str, target: str) -> None:
        """Move a file to where none is."""
        with self._asked(url) as (filesystem, path):
            if not filesystem.rename(path, self._jvm.org.apache.hadoop.fs.Path(target)):
                raise OSError(f"`{url}` cannot be renamed to `{target}`")

    def remove(self, url: str) -> None:
        """Remove a file, or a directory with all in it; nothing, if it is not there."""
        with self._asked(url) as (filesystem, path):
            filesystem.delete(path, True)

    def exists(self, url: str) -> bool:
        """Whether there is a file or directory."""
        with self._asked(url) as (filesystem, path):
            return bool(filesystem.exists(path))


class HadoopPath:
    """A place that is written to, with the methods of `pathlib.Path` that the audit uses."""

    def __init__(self, hadoop: Hadoop, url: str) -> None:
        self._hadoop = hadoop
        self._url = trimmed(url)

    def __str__(self) -> str:
        return self._url

    def __truediv__(self, name: str) -> HadoopPath:
        return HadoopPath(self._hadoop, f"{self._url}/{name}")

    def with_suffix(self, suffix: str) -> HadoopPath:
        """The place with another end of its name."""
        return HadoopPath(self._hadoop, self._url.removesuffix(PurePosixPath(self._url).suffix) + suffix)

    def exists(self) -> bool:
        """Whether there is a file or directory."""
        return self._hadoop.exists(self._url)

    def mkdir(self, parents: bool = True, exist_ok: bool = True) -> None:
        """Make the directory and those above it."""
        assert parents
        assert exist_ok
        self._hadoop.make_directory(self._url)

    def glob(self, pattern: str) -> Iterator[HadoopPath]:
        """What in the directory has such a name; nothing, if there is no directory."""
        found = self._hadoop.entries(self._url) if self.exists() else []
        return (self / one.name for one in found if fnmatchcase(one.name, pattern))

    def read_text(self, encoding: str = "utf-8") -> str:
        """The content of a small file."""
        return self._hadoop.read(self._url).decode(encoding)

    def write_text(self, text: str, encoding: str = "utf-8") -> None:
        """Write a small file, in place of one that is there."""
        self._hadoop.write(self._url, text.encode(encoding))

    def touch(self) -> None:
        """Write an empty file."""
        self._hadoop.write(self._url, b"")

    def unlink(self, missing_ok: bool = True) -> None:
        """Remove the file, or the directory with all in it."""
        assert missing_ok
        self._hadoop.remove(self._url)

    def rename(self, target: object) -> None:
        """Move the file to where none is."""
        self._hadoop.rename(self._url, str(target))


Target = Path | HadoopPath
"""Where something is written."""


def target_of(spark: SparkSession, text: str) -> Target:
    """The place that an option names: a path of this machine, or a URL."""
    return HadoopPath(Hadoop.of(spark), text) if is_url(text) else Path(text).absolute()


def local_url(path: Path) -> str:
    """The URL of a path of this machine, as Hadoop and Spark take it: nothing is escaped in it."""
    return f"file://{path.absolute()}"


def spark_path(target: Target) -> str:
    """A place as Spark takes it: without a scheme it would be one of `fs.defaultFS`."""
    return str(target) if isinstance(target, HadoopPath) else local_url(target)


def trimmed(url: str) -> str:
    """Without the slashes at its end, except those of its scheme."""
    match = URL.match(url)
    return url[: match.end()] + url[match.end() :].rstrip("/") if match else url


def is_url(text: str) -> bool:
    """Whether Hadoop is asked about it, instead of this machine."""
    return URL.match(text) is not None
