// Package sealed encrypts secrets at rest with the installation's master key (AES-256-GCM).
package sealed

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// ErrSealed says that a secret cannot be opened: another master key sealed it, or it was changed.
var ErrSealed = errors.New("the secret does not open: was it sealed with another master key?")

// KeySize is the length of a master key in bytes.
const KeySize = 32

// version leads every sealed secret, so that the format can change.
const version = 1

// Box seals and opens under one master key.
type Box struct{ aead cipher.AEAD }

// NewKey makes a master key in its text form.
func NewKey() string {
	key := make([]byte, KeySize)
	rand.Read(key)
	return base64.StdEncoding.EncodeToString(key)
}

// New takes a master key in its text form: 32 bytes in base64.
func New(masterKey string) (*Box, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(masterKey))
	if err != nil || len(key) != KeySize {
		return nil, fmt.Errorf("the master key must be %d bytes in base64 (make one with: openssl rand -base64 %d)", KeySize, KeySize)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	return &Box{aead}, nil
}

// Seal encrypts plain; only the same context opens it again.
func (b *Box) Seal(plain []byte, context string) []byte {
	return b.aead.Seal([]byte{version}, nil, plain, []byte(context))
}

// Open decrypts what Seal made. Error: [ErrSealed].
func (b *Box) Open(secret []byte, context string) ([]byte, error) {
	if len(secret) == 0 || secret[0] != version {
		return nil, ErrSealed
	}
	plain, err := b.aead.Open(nil, nil, secret[1:], []byte(context))
	if err != nil {
		return nil, ErrSealed
	}
	return plain, nil
}
