// Package console is a page for operators: a tenant's payments and events, and the exits of what is parked. It is static
// and holds no data; the browser calls the merchants' API with the key that the operator types in.
package console

import (
	"embed"
	"net/http"
)

//go:embed index.html app.js style.css
var files embed.FS

// Files lists the paths below /console that [Handler] serves.
func Files() []string { return []string{"/console", "/console/app.js", "/console/style.css"} }

// Handler serves the page and its two files.
func Handler() http.Handler {
	mux := http.NewServeMux()
	for path, name := range map[string]string{"/console": "index.html", "/console/app.js": "app.js", "/console/style.css": "style.css"} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			// Nothing but its own files runs in the page, and it talks to nobody but this API.
			w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
			w.Header().Set("Referrer-Policy", "no-referrer")
			http.ServeFileFS(w, r, files, name)
		})
	}
	return mux
}
