#!/bin/sh
# Creates Temporal's two databases and brings their schemas to the version of the image that this runs in. It may run again
# at any time: what is there already is left alone.
set -eu

: "${SQL_HOST:?the host of PostgreSQL}"
: "${SQL_USER:?the user of PostgreSQL}"
: "${SQL_PASSWORD:?the password of that user}" # temporal-sql-tool reads all three from the environment
: "${DBNAME:?the name of the main database}"
: "${VISIBILITY_DBNAME:?the name of the visibility database}"

tool() {
	temporal-sql-tool --plugin postgres12_pgx "$@"
}

prepare() {
	database=$1
	schema=$2
	echo "database $database: schema postgresql/v12/$schema"
	tool --database "$database" create-database
	tool --database "$database" setup-schema -v 0.0
	tool --database "$database" update-schema --schema-name "postgresql/v12/$schema"
}

prepare "$DBNAME" temporal
prepare "$VISIBILITY_DBNAME" visibility
echo "Temporal's schemas are up to date"
