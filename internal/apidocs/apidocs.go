// Package apidocs makes a page for people out of the API's OpenAPI description: one HTML page without a script, made once at
// the start and served with its style. It asks nobody for anything.
package apidocs

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"net/http"

	"go.yaml.in/yaml/v3"
)

//go:embed page.html
var pageHTML string

//go:embed style.css
var style []byte

// Files lists the paths that [Handler] serves.
func Files() []string { return []string{"/docs", "/docs/style.css", "/openapi.yaml"} }

// policy lets the page have its own style and nothing else.
const policy = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Handler serves the page of a description, and the description itself. It panics where the description cannot be read: it is
// a part of the program.
func Handler(openapi []byte) http.Handler {
	page, err := render(openapi)
	if err != nil {
		panic(fmt.Sprintf("openapi.yaml: %v", err))
	}
	mux := http.NewServeMux()
	serve := func(path, contentType string, content []byte) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.Header().Set("Content-Security-Policy", policy)
			_, _ = w.Write(content) // a reader that has left misses nothing
		})
	}
	serve("/docs", "text/html; charset=utf-8", page)
	serve("/docs/style.css", "text/css; charset=utf-8", style)
	serve("/openapi.yaml", "application/yaml; charset=utf-8", openapi)
	return mux
}

func render(openapi []byte) ([]byte, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(openapi, &root); err != nil {
		return nil, err
	}
	d := &document{root: root.Content[0]}
	tmpl, err := template.New("page").Parse(pageHTML)
	if err != nil {
		return nil, err
	}
	var page bytes.Buffer
	if err := tmpl.Execute(&page, d.view()); err != nil {
		return nil, err
	}
	return page.Bytes(), nil
}
