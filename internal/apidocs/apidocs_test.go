package apidocs_test

import (
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/paylatch/paylatch/internal/apidocs"
)

func served(t *testing.T, path string) (text string, header http.Header) {
	t.Helper()
	openapi, err := os.ReadFile("../../api/openapi.yaml")
	require.NoError(t, err)
	answer := httptest.NewRecorder()
	apidocs.Handler(openapi).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
	require.Equal(t, http.StatusOK, answer.Code)
	return answer.Body.String(), answer.Header()
}

func TestThePageHasEverythingThatIsDescribed(t *testing.T) {
	t.Parallel()
	page, _ := served(t, "/docs")
	text, _ := served(t, "/openapi.yaml")
	var doc struct {
		Paths      map[string]map[string]yaml.Node
		Components struct {
			Schemas map[string]struct{ Properties map[string]yaml.Node }
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(text), &doc))
	operations := 0
	for path, methods := range doc.Paths {
		for method, node := range methods {
			if method == "parameters" {
				continue
			}
			var o struct {
				OperationID string `yaml:"operationId"`
				Summary     string
				Responses   map[string]yaml.Node
			}
			require.NoError(t, node.Decode(&o))
			_, article, found := strings.Cut(page, `<article id="`+o.OperationID+`">`)
			require.True(t, found, o.OperationID)
			article, _, _ = strings.Cut(article, "</article>")
			require.Contains(t, article, ">"+strings.ToUpper(method)+"</span> <code>"+path+"</code>")
			for status := range o.Responses {
				if status != "<<" {
					require.Contains(t, article, "<code>"+status+"</code>", "%s %s", method, path)
				}
			}
			operations++
		}
	}
	require.Greater(t, operations, 30)
	for name, schema := range doc.Components.Schemas {
		_, article, found := strings.Cut(page, `<article id="schema-`+name+`">`)
		require.True(t, found, name)
		article, _, _ = strings.Cut(article, "</article>")
		for field := range schema.Properties {
			require.Contains(t, article, "<code>"+field+"</code>", name)
		}
	}
	require.Contains(t, page, "idempotency_key_in_progress")
	require.Contains(t, page, `<span class="scope">scope refund</span>`)
	require.NotContains(t, page, "`", "code is set as code")
	require.NotContains(t, page, "$ref")
}

func TestThePageIsWellFormedAndAsksNobodyForAnything(t *testing.T) {
	t.Parallel()
	page, header := served(t, "/docs")
	require.Equal(t, "text/html; charset=utf-8", header.Get("Content-Type"))
	require.Contains(t, header.Get("Content-Security-Policy"), "default-src 'none'")
	require.NotContains(t, header.Get("Content-Security-Policy"), "script-src")
	ids, links := map[string]bool{}, []string{}
	dec := xml.NewDecoder(strings.NewReader(page))
	dec.Strict = true
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		require.NotContains(t, []string{"script", "style", "img", "iframe", "form", "object"}, start.Name.Local)
		for _, a := range start.Attr {
			require.NotContains(t, []string{"style", "src", "onclick"}, a.Name.Local)
			switch a.Name.Local {
			case "id":
				require.False(t, ids[a.Value], "the id %s stands twice", a.Value)
				ids[a.Value] = true
			case "href":
				links = append(links, a.Value)
			}
		}
	}
	require.Greater(t, len(links), 100)
	for _, link := range links {
		if anchor, ok := strings.CutPrefix(link, "#"); ok {
			require.True(t, ids[anchor], "%s leads nowhere", link)
			continue
		}
		require.Contains(t, apidocs.Files(), link)
	}
	style, _ := served(t, "/docs/style.css")
	require.NotRegexp(t, regexp.MustCompile(`url\(|@import|https?:`), style)
}

func TestADescriptionThatCannotBeReadEndsTheStart(t *testing.T) {
	t.Parallel()
	require.Panics(t, func() { apidocs.Handler([]byte("a: [")) })
}

func TestADescriptionIsTextAndNothingElse(t *testing.T) {
	t.Parallel()
	answer := httptest.NewRecorder()
	apidocs.Handler([]byte(`
info: {title: "<b>t</b>", description: "<script>alert(1)</script> `+"`<i>`"+` **<u>**"}
tags: [{name: a}]
paths:
  /x: {get: {operationId: x, tags: [a], summary: "<s>", responses: {'200': {description: d, content: {application/json: {schema: {type: object}, example: {"<k>": "</pre>"}}}}}}}
`)).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/docs", nil))
	page := answer.Body.String()
	for _, raw := range []string{"<script", "<i>", "<u>", "<s>", "<k>", `"</pre>`, "<b>t"} {
		require.NotContains(t, page, raw)
	}
	require.Contains(t, page, "<code>&lt;i&gt;</code>")
	require.Contains(t, page, "<strong>&lt;u&gt;</strong>")
}
