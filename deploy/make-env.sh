#!/bin/sh
# Writes .env beside docker-compose.yml with new random secrets, readable by its owner alone. It never overwrites one: the
# databases keep the old passwords, and what the old master key has sealed could not be read again.
set -eu
umask 077
cd "$(dirname "$0")/.."

if [ -e .env ]; then
	echo "make-env: .env is there already; it was left as it is" >&2
	exit 1
fi

password() { openssl rand -hex 32; }

new=.env.new
trap 'rm -f "$new"' EXIT
{
	echo "POSTGRES_PASSWORD=$(password)"
	echo "PAYLATCH_API_PASSWORD=$(password)"
	echo "PAYLATCH_ENGINE_PASSWORD=$(password)"
	echo "TEMPORAL_POSTGRES_PASSWORD=$(password)"
	echo "PAYLATCH_MASTER_KEY=$(openssl rand -base64 32)"
} >"$new"
# A failed openssl would leave an empty value behind and still end well.
if [ "$(grep -Ec '^[A-Z_]+=[0-9A-Za-z+/=]{44,}$' "$new")" -ne 5 ]; then
	echo "make-env: openssl made no random values" >&2
	exit 1
fi
mv "$new" .env
echo "wrote .env; keep a copy of its PAYLATCH_MASTER_KEY apart from the database's backups"
