# SPDX-License-Identifier: Apache-2.0
"""Runs nginx, HAProxy or Caddy in front of a server, with the files from deploy/proxies."""

import os
import socket
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final

from scripts.services.debian import library_path, obtain_program
from scripts.services.ports import HOST
from scripts.services.process import ServiceProcess

FILES: Final = Path(__file__).resolve().parents[2] / "deploy" / "proxies"
UPSTREAM: Final = "127.0.0.1:8080"
"""Address of Tidings in the files."""

_ANSWER_SECONDS_MAX: Final = 5.0


class Proxy(ServiceProcess):
    """A proxy on this machine. Only addresses and certificates in its file are replaced."""

    program: ClassVar[str]
    package: ClassVar[str]
    file: ClassVar[str]
    scheme: ClassVar[str] = "https"
    keeps_forwarded: ClassVar[bool] = True
    """Whether the proxy extends an `X-Forwarded-For` header of the client, instead of replacing
    it."""

    def __init__(self, folder: Path, upstream_port: int, certificate: Path, key: Path) -> None:
        super().__init__(folder)
        self.upstream = f"{HOST}:{upstream_port}"
        self.certificate = certificate
        self.key = key

    @classmethod
    def obtain(cls) -> Path:
        """Return the path of the program; obtain it if necessary."""
        return obtain_program(cls.program, cls.package)

    @property
    def address(self) -> str:
        """The URL for clients."""
        return f"{self.scheme}://{HOST}:{self.port}"

    def answers(self) -> bool:
        """Return whether the proxy listens."""
        try:
            with socket.create_connection((HOST, self.port), _ANSWER_SECONDS_MAX):
                return True
        except OSError:
            return False

    def environment(self) -> Mapping[str, str]:
        """Return the path of the libraries that were unpacked with the program."""
        return library_path(self.obtain())

    @abstractmethod
    def replacements(self) -> Mapping[str, str]:
        """Return the texts to replace in the file; each occurs exactly once."""

    def configured(self) -> Path:
        """Return the file with all replacements."""
        text = (FILES / self.file).read_text()
        for wanted, instead in self.replacements().items():
            assert text.count(wanted) == 1, f"{self.file}: {wanted!r} has to be there once"
            text = text.replace(wanted, instead)
        path = self.folder / self.file
        self.folder.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path


class Nginx(Proxy):
    """nginx, which includes the file in the same way as Debian's main file."""

    name: ClassVar[str] = "nginx"
    program: ClassVar[str] = "nginx"
    package: ClassVar[str] = "nginx"
    file: ClassVar[str] = "nginx.conf"

    def replacements(self) -> Mapping[str, str]:
        """Return replacements for port, certificate and upstream."""
        return {
            "listen 443 ssl": f"listen {HOST}:{self.port} ssl",
            "/etc/ssl/chat.pem": str(self.certificate),
            "/etc/ssl/chat.key": str(self.key),
            UPSTREAM: self.upstream,
        }

    def command(self) -> list[str]:
        """Return the command that runs nginx in the foreground and writes only to the folder."""
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
    """HAProxy, as a single process in the foreground."""

    name: ClassVar[str] = "HAProxy"
    program: ClassVar[str] = "haproxy"
    package: ClassVar[str] = "haproxy"
    file: ClassVar[str] = "haproxy.cfg"

    def replacements(self) -> Mapping[str, str]:
        """Return replacements for port, certificate and upstream."""
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
        """Return the command that runs HAProxy."""
        return [str(self.obtain()), "-db", "-f", str(self.configured())]


class Caddy(Proxy):
    """Caddy, with our certificate instead of one from a public authority."""

    name: ClassVar[str] = "Caddy"
    program: ClassVar[str] = "caddy"
    package: ClassVar[str] = "caddy"
    file: ClassVar[str] = "Caddyfile"
    scheme: ClassVar[str] = "http"
    keeps_forwarded: ClassVar[bool] = False

    def replacements(self) -> Mapping[str, str]:
        """Return no replacements, because the file reads the environment."""
        return {}

    def command(self) -> list[str]:
        """Return the command that runs Caddy in the foreground."""
        config = ["--config", str(self.configured()), "--adapter", "caddyfile"]
        return [str(self.obtain()), "run", *config]

    def environment(self) -> Mapping[str, str]:
        """Return the address to listen on, and folders other than those of the user."""
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
