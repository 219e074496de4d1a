package channel

import (
	"errors"
	"net"
	"net/url"
	"strings"
)

// BaseURL reads where a channel's API is: fallback where raw is empty. Keys and money go there, so it is https; plain http
// is for a simulator on this machine. A path in front is kept, without a slash at its end.
func BaseURL(raw, fallback string) (*url.URL, error) {
	if raw == "" {
		raw = fallback
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Opaque != "" {
		return nil, errors.New("base_url is not an address such as https://api.example.com")
	}
	if u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return nil, errors.New("base_url has a user, a query or a fragment: it is scheme, host and perhaps a path")
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
		return nil, errors.New("base_url must begin with https://; http:// is for this machine alone")
	}
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath = ""
	return u, nil
}

func loopback(host string) bool { return host == "localhost" || net.ParseIP(host).IsLoopback() }
