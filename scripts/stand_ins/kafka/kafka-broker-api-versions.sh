#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kafka-broker-api-versions.sh --bootstrap-server HOST:PORT
# Succeeds if the broker answers the request for its versions, as the tool of this name does. That
# tool is in a jar that nothing else here needs.
set -euo pipefail

[ "$1" = --bootstrap-server ]
exec 3<> "/dev/tcp/${2%:*}/${2#*:}"
printf '\0\0\0\x0a\0\x12\0\0\0\0\0\x07\xff\xff' >&3
answer=$(timeout 5 head -c 10 <&3 | od -An -tx1 -j4 | tr -d ' \n')
[ "$answer" = 000000070000 ]
