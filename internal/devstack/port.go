package devstack

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Free ports are picked below the range from which systems give ports to outgoing connections (32768 and up on
// Linux, 49152 and up elsewhere): a server that is restarted must find its port still free.
const (
	lowestFreePort = 15000
	freePorts      = 32768 - lowestFreePort
)

// freePort picks a port of 127.0.0.1 that nobody listens on.
func freePort() (int, error) {
	for range 100 {
		port := lowestFreePort + rand.IntN(freePorts)
		if portIsFree(port) {
			return port, nil
		}
	}
	return 0, errors.New("no free TCP port found on 127.0.0.1")
}

// choosePort returns want, or a free port if want is 0. A taken port is an error that says what to do: remedy.
func choosePort(want int, remedy string) (int, error) {
	if want == 0 {
		return freePort()
	}
	if !portIsFree(want) {
		return 0, fmt.Errorf("port %d on 127.0.0.1 is taken by another program: stop it or %s", want, remedy)
	}
	return want, nil
}

func portIsFree(port int) bool {
	l, err := net.Listen("tcp", localAddress(port))
	if err != nil {
		return false
	}
	_ = l.Close()
	return true
}

func localAddress(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
