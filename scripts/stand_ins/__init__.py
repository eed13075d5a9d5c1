# SPDX-License-Identifier: Apache-2.0
"""Makes images with the names in deploy/compose, where no registry of images can be reached.

`python -m scripts.stand_ins` makes them with Docker, and `docker compose` then finds all images
here. Programs come from Debian's packages and from scripts.services, so Redis and Caddy have the
versions of Debian. Folders, users and commands are those of the images that they replace.
"""
