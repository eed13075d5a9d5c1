# SPDX-License-Identifier: Apache-2.0
"""nginx, HAProxy and Caddy in front of a server, each with its file from deploy/proxies."""

import os
import socket
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final

from scripts.services.debian import library_path, obtain_program
from scripts.services.process import HOST, ServiceProcess

FILES: Final = Path(__file__).resolve().parents[2] / "deploy" / "proxies"
UPSTREAM: Final = "127.0.0.1:8080"
"""Where the files expect Tidings."""

_ANSWER_SECONDS_MAX: Final = 5.0


class Proxy(ServiceProcess):
    """A proxy on this machine. Of its file, only addresses and certificates are replaced."""

    program: ClassVar[str]
    package: ClassVar[str]
    file: ClassVar[str]
    scheme: ClassVar[str] = "https"
    keeps_forwarded: ClassVar[bool] = True
    """Whether it adds to the `X-Forwarded-For` that a client sent, or begins a new one."""

    def __init__(self, folder: Path, upstream_port: int, certificate: Path, key: Path) -> None:
        super().__init__(folder)
        self.upstream = f"{HOST}:{upstream_port}"
        self.certificate = certificate
        self.key = key

    @classmethod
    def obtain(cls) -> Path:
        """The program."""
        return obtain_program(cls.program, cls.package)

    @property
    def address(self) -> str:
        """The URL for a client."""
        return f"{self.scheme}://{HOST}:{self.port}"

    def answers(self) -> bool:
        """Whether somebody listens."""
        try:
            with socket.create_connection((HOST, self.port), _ANSWER_SECONDS_MAX):
                return True
        except OSError:
            return False

    def environment(self) -> Mapping[str, str]:
        """Where the libraries are that were unpacked with the program."""
        return library_path(self.obtain())

    @abstractmethod
    def replacements(self) -> Mapping[str, str]:
        """What has to be in the file for it to run here; each is there exactly once."""

    def configured(self) -> Path:
        """The file as it runs here."""
        text = (FILES / self.file).read_text()
        for wanted, instead in self.replacements().items():
            assert text.count(wanted) == 1, f"{self.file}: {wanted!r} has to be there once"
            text = text.replace(wanted, instead)
        path = self.folder / self.file
        self.folder.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path


class Nginx(Proxy):
    """nginx, with the file included as Debian's main file includes it."""

    name: ClassVar[str] = "nginx"
    program: ClassVar[str] = "nginx"
    package: ClassVar[str] = "nginx"
    file: ClassVar[str] = "nginx.conf"

    def replacements(self) -> Mapping[str, str]:
        """Port, certificate and upstream."""
        return {
            "listen 443 ssl": f"listen {HOST}:{self.port} ssl",
            "/etc/ssl/chat.pem": str(self.certificate),
            "/etc/ssl/chat.key": str(self.key),
            UPSTREAM: self.upstream,
        }

    def command(self) -> list[str]:
        """nginx in the foreground, with everything that it writes in the folder."""
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        places = [f"{kind}_temp_path {self.folder}/{kind};" for kind in kinds]
        user = ["user root;"] if os.getuid() == 0 else []
        lines = [
            *user,
            "daemon off;",
            "worker_processes 1;",
            f"pid {self.folder}/nginx.pid;",
            "error_log stderr warn;",
            "events { worker_connections 1024; }",
            "http {",
            "access_log off;",
            *places,
            f"include {self.configured()};",
            "}",
        ]
        main = self.folder / "main.conf"
        main.write_text("\n".join(lines))
        return [str(self.obtain()), "-e", "stderr", "-p", str(self.folder), "-c", str(main)]


class HAProxy(Proxy):
    """HAProxy in the foreground."""

    name: ClassVar[str] = "HAProxy"
    program: ClassVar[str] = "haproxy"
    package: ClassVar[str] = "haproxy"
    file: ClassVar[str] = "haproxy.cfg"

    def replacements(self) -> Mapping[str, str]:
        """Port, certificate and upstream."""
        together = self.folder / "with-key.pem"
        self.folder.mkdir(parents=True, exist_ok=True)
        together.touch(mode=0o600)
        together.write_text(self.certificate.read_text() + self.key.read_text())
        return {
            "bind :443": f"bind {HOST}:{self.port}",
            "/etc/ssl/chat-with-key.pem": str(together),
            UPSTREAM: self.upstream,
        }

    def command(self) -> list[str]:
        """HAProxy, one process."""
        return [str(self.obtain()), "-db", "-f", str(self.configured())]


class Caddy(Proxy):
    """Caddy, without the certificate that it would get from outside."""

    name: ClassVar[str] = "Caddy"
    program: ClassVar[str] = "caddy"
    package: ClassVar[str] = "caddy"
    file: ClassVar[str] = "Caddyfile"
    scheme: ClassVar[str] = "http"
    keeps_forwarded: ClassVar[bool] = False

    def replacements(self) -> Mapping[str, str]:
        """Nothing: the file asks the environment."""
        return {}

    def command(self) -> list[str]:
        """Caddy in the foreground."""
        config = ["--config", str(self.configured()), "--adapter", "caddyfile"]
        return [str(self.obtain()), "run", *config]

    def environment(self) -> Mapping[str, str]:
        """Where it listens, and folders that are not the user's."""
        return {
            **super().environment(),
            "CADDY_SITE": f"http://{HOST}:{self.port}",
            "CADDY_UPSTREAM": self.upstream,
            "CADDY_ADMIN": f"unix/{self.folder}/admin.sock",
            "HOME": str(self.folder),
            "XDG_DATA_HOME": str(self.folder),
            "XDG_CONFIG_HOME": str(self.folder),
        }


PROXIES: Final[tuple[type[Proxy], ...]] = (Nginx, HAProxy, Caddy)
