package sealed_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/internal/sealed"
)

func TestOnlyTheSameKeyAndContextOpen(t *testing.T) {
	t.Parallel()
	box, err := sealed.New(sealed.NewKey())
	require.NoError(t, err)
	other, err := sealed.New(sealed.NewKey())
	require.NoError(t, err)

	secret := box.Seal([]byte("whsec_x"), "a")
	require.False(t, bytes.Contains(secret, []byte("whsec")))
	require.NotEqual(t, secret, box.Seal([]byte("whsec_x"), "a"), "a nonce is never used twice")

	plain, err := box.Open(secret, "a")
	require.NoError(t, err)
	require.Equal(t, "whsec_x", string(plain))

	for name, open := range map[string]func() ([]byte, error){
		"other key":     func() ([]byte, error) { return other.Open(secret, "a") },
		"other context": func() ([]byte, error) { return box.Open(secret, "b") },
		"changed":       func() ([]byte, error) { s := bytes.Clone(secret); s[len(s)-1] ^= 1; return box.Open(s, "a") },
		"cut":           func() ([]byte, error) { return box.Open(secret[:3], "a") },
		"empty":         func() ([]byte, error) { return box.Open(nil, "a") },
	} {
		_, err := open()
		require.ErrorIs(t, err, sealed.ErrSealed, name)
	}
}

func TestAWrongMasterKeyIsRefused(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "short", "AAAA", "not base64 at all !!"} {
		_, err := sealed.New(key)
		require.ErrorContains(t, err, "32 bytes in base64")
	}
}
