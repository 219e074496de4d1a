#!/bin/sh
# Waits until Temporal serves and makes the namespace if it is missing. It may run again at any time.
set -eu

: "${TEMPORAL_ADDRESS:?host:port of Temporal}"
: "${TEMPORAL_NAMESPACE:?the name of the namespace}"
: "${RETENTION:?how long a closed workflow can be looked at, such as 168h}"
attempts=${ATTEMPTS:-60}

# The CLI gives up while name servers outside are asked about the service's name: it is given the address.
host=${TEMPORAL_ADDRESS%:*}
address=$(getent hosts "$host" | awk '{ print $1; exit }')
case $address in
'') ;; # not known yet: the name has to do
*:*) TEMPORAL_ADDRESS="[$address]:${TEMPORAL_ADDRESS##*:}" ;;
*) TEMPORAL_ADDRESS="$address:${TEMPORAL_ADDRESS##*:}" ;;
esac
export TEMPORAL_ADDRESS

attempt=1
again() {
	if [ "$attempt" -ge "$attempts" ]; then
		echo "gave up after $attempt attempts: $1" >&2
		exit 1
	fi
	echo "attempt $attempt of $attempts: $1"
	attempt=$((attempt + 1))
	sleep 2
}

until temporal operator cluster health; do
	again "Temporal does not serve yet"
done

# What counts is that it can be described: somebody else may make it in between.
until temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE" >/dev/null 2>&1; do
	temporal operator namespace create --namespace "$TEMPORAL_NAMESPACE" --retention "$RETENTION" || true
	again "namespace $TEMPORAL_NAMESPACE is not there yet"
done
echo "namespace $TEMPORAL_NAMESPACE is there"
