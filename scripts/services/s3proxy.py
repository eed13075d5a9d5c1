# SPDX-License-Identifier: Apache-2.0
"""S3Proxy: a server with the protocol of S3 that checks signatures, from jars that Maven
downloads."""

import http.client
from pathlib import Path
from typing import ClassVar, Final

from scripts.services.maven import copy_jars, java_with_jars, version_of
from scripts.services.obtaining import FOLDER, kept
from scripts.services.ports import HOST
from scripts.services.process import ServiceProcess

POM: Final = Path(__file__).with_name("s3proxy.pom.xml")
DIGESTS: Final = Path(__file__).with_name("s3proxy.sha256")

_CONFIG: Final = "s3proxy.conf"
_SETTINGS: Final = """\
s3proxy.endpoint=http://{host}:{port}
s3proxy.authorization=aws-v2-or-v4
s3proxy.identity=test
s3proxy.credential=test
jclouds.identity=test
jclouds.credential=test
jclouds.provider=filesystem-nio2
jclouds.filesystem.basedir={folder}
"""


def obtain(folder: Path = FOLDER) -> Path:
    """Return the folder with the jars in `libs`; download them if necessary."""
    version = version_of("s3proxy", POM)
    return kept(folder / f"s3proxy-{version}", lambda part: copy_jars(POM, DIGESTS, part), "maven")


class S3Proxy(ServiceProcess):
    """S3Proxy with its objects in a folder. The key `test` with the secret `test` may do
    everything."""

    name: ClassVar[str] = "S3Proxy"

    @property
    def address(self) -> str:
        """The endpoint for clients."""
        return f"http://{HOST}:{self.port}"

    def command(self) -> list[str]:
        """Return the command that runs the server, with a file of settings."""
        settings, objects = self.folder / _CONFIG, self.folder / "objects"
        objects.mkdir(parents=True, exist_ok=True)
        settings.write_text(_SETTINGS.format(host=HOST, port=self.port, folder=objects))
        java = java_with_jars(obtain(), "-Xmx256m")
        return [*java, "org.gaul.s3proxy.Main", "--properties", str(settings)]

    def answers(self) -> bool:
        """Return whether the server refuses a request without a signature, as it should."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=1)
        try:
            connection.request("GET", "/")
            return connection.getresponse().status == 403
        except OSError:
            return False
        finally:
            connection.close()
