package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChaosPlansFromItsSeed(t *testing.T) {
	t.Parallel()
	plan := output(t, "chaos", "--plan", "--seed", "7", "--for", "60s")
	require.Contains(t, plan, "kill postgres")
	require.Equal(t, plan, output(t, "chaos", "--plan", "--seed", "7", "--for", "60s"))
	require.NotEqual(t, plan, output(t, "chaos", "--plan", "--seed", "8", "--for", "60s"))
}

func TestChaosRefusesWhatItCannotPlay(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"--for is 10s to 24h":           {"--for", "1s"},
		"--rate 0.1 to 100":             {"--rate", "0"},
		"--redrive-after is 5s to 1m0s": {"--redrive-after", "1s"},
		"no such file":                  {"--open", "/no/such/directory"},
		"file exists":                   {"--dir", t.TempDir()},
	} {
		require.Contains(t, failure(t, append([]string{"chaos"}, args...)...), want)
	}
}

func TestFlagsThatNoProcessCouldKeepAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ want, command, flag, value string }{
		{"--redrive-after is 5s to 1m0s", "serve", "--redrive-after", "61s"},
		{"--redrive-after is 5s to 1m0s", "worker", "--redrive-after", "4s"},
		{"--idempotency-ttl is at least 1m0s", "serve", "--idempotency-ttl", "1s"},
		{"--rate-limit is 0 or above", "serve", "--rate-burst", "0"},
	} {
		require.Contains(t, failure(t, c.command, c.flag, c.value), c.want)
	}
}
