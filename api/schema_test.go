package api_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// object is a node of openapi.yaml.
type object = map[string]any

// document reads openapi.yaml as JSON would give it, once.
var document = sync.OnceValue(func() object {
	text, err := os.ReadFile("openapi.yaml")
	if err != nil {
		panic(err)
	}
	var doc object
	if err := yaml.Unmarshal(text, &doc); err != nil {
		panic(err)
	}
	return doc
})

// at follows names from a node, through references.
func at(node any, names ...string) any {
	for _, name := range names {
		node = resolve(node)[name]
	}
	return node
}

// resolve gives a node as an object, following a reference; nothing is an empty object.
func resolve(node any) object {
	o, _ := node.(object)
	for {
		ref, ok := o["$ref"].(string)
		if !ok {
			return o
		}
		target := any(document())
		for _, name := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
			target = target.(object)[name]
		}
		if target == nil {
			panic("openapi.yaml: nothing at " + ref)
		}
		o = target.(object)
	}
}

func schemaOf(name string) object { return resolve(object{"$ref": "#/components/schemas/" + name}) }

// operation is one method of one path of openapi.yaml.
type operation struct {
	Method, Path string
	node         object
}

func operations() []operation {
	var list []operation
	paths := document()["paths"].(object)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		for _, method := range []string{"get", "put", "post", "delete", "patch", "head", "options"} {
			if node, ok := paths[path].(object)[method]; ok {
				list = append(list, operation{strings.ToUpper(method), path, node.(object)})
			}
		}
	}
	return list
}

// scope is what the operation wants of a key: {apiKey: [scope]} and nothing else.
func (o operation) scope(t *testing.T) string {
	t.Helper()
	security := o.node["security"].([]any)
	require.Len(t, security, 1, o.Path)
	scopes := security[0].(object)["apiKey"].([]any)
	require.Len(t, scopes, 1, o.Path)
	return scopes[0].(string)
}

var parameterPattern = regexp.MustCompile(`\{[a-z_]+\}`)

func (o operation) serves(method, path string) bool {
	var pattern strings.Builder
	for i, literal := range parameterPattern.Split(o.Path, -1) {
		if i > 0 {
			pattern.WriteString("[^/]+")
		}
		pattern.WriteString(regexp.QuoteMeta(literal))
	}
	return method == o.Method && regexp.MustCompile("^"+pattern.String()+"$").MatchString(path)
}

// requireDescribed holds an answer against openapi.yaml: its status is listed, and its body is what the schema says. What
// no operation serves must be a problem.
func requireDescribed(t *testing.T, method, path string, got reply) {
	t.Helper()
	for _, o := range operations() {
		if !o.serves(method, path) {
			continue
		}
		response := at(o.node, "responses", fmt.Sprint(got.StatusCode))
		require.NotNil(t, response, "%s %s does not list the status %d: %s", method, o.Path, got.StatusCode, got.Text)
		media, _, _ := strings.Cut(got.Header.Get("Content-Type"), ";")
		content := at(response, "content", media)
		require.NotNil(t, content, "%s %s %d does not list %q", method, o.Path, got.StatusCode, media)
		if strings.HasSuffix(media, "json") {
			require.NoError(t, conforms(readJSON(t, got.Text), at(content, "schema"), "body"), got.Text)
		}
		return
	}
	require.Contains(t, []int{http.StatusNotFound, http.StatusMethodNotAllowed}, got.StatusCode, "%s %s", method, path)
	require.NoError(t, conforms(readJSON(t, got.Text), schemaOf("Problem"), "body"), got.Text)
}

// conforms tells in what a JSON value differs from a schema. It is stricter than JSON Schema: a field that the schema does
// not name is a difference, unless additionalProperties is true.
func conforms(value, node any, where string) error {
	schema := resolve(node)
	if len(schema) == 0 {
		return fmt.Errorf("%s has no schema", where)
	}
	if enum, ok := schema["enum"].([]any); ok && !slices.Contains(enum, value) {
		return fmt.Errorf("%s is %v, not one of %v", where, value, enum)
	}
	if err := conformsToType(value, schema, where); err != nil {
		return err
	}
	switch v := value.(type) {
	case string:
		return conformsAsText(v, schema, where)
	case []any:
		for i, item := range v {
			if err := conforms(item, schema["items"], fmt.Sprintf("%s[%d]", where, i)); err != nil {
				return err
			}
		}
	case object:
		return conformsAsObject(v, schema, where)
	}
	return nil
}

func conformsToType(value any, schema object, where string) error {
	if schema["allOf"] != nil {
		return nil // its members say it
	}
	allowed, ok := schema["type"].([]any)
	if !ok {
		allowed = []any{schema["type"]}
	}
	if kind := kindOf(value); !slices.Contains(allowed, any(kind)) {
		return fmt.Errorf("%s is %s, not %v", where, kind, allowed)
	}
	return nil
}

func kindOf(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case object:
		return "object"
	case int:
		return "integer" // of an example
	case json.Number:
		if _, err := v.Int64(); err == nil {
			return "integer"
		}
	}
	return "number"
}

func conformsAsText(text string, schema object, where string) error {
	if schema["format"] == "date-time" {
		if _, err := time.Parse(time.RFC3339Nano, text); err != nil {
			return fmt.Errorf("%s is no time: %w", where, err)
		}
	}
	if pattern, ok := schema["pattern"].(string); ok && !regexp.MustCompile(pattern).MatchString(text) {
		return fmt.Errorf("%s is %q, which is not %s", where, text, pattern)
	}
	return nil
}

func conformsAsObject(value, schema object, where string) error {
	properties, required, open := fieldsOf(schema)
	for _, name := range required {
		if _, ok := value[name]; !ok {
			return fmt.Errorf("%s has no %s", where, name)
		}
	}
	for name, v := range value {
		property, ok := properties[name]
		if !ok && open {
			continue
		}
		if !ok {
			return fmt.Errorf("%s has a field %s that the schema does not name", where, name)
		}
		if err := conforms(v, property, where+"."+name); err != nil {
			return err
		}
	}
	return nil
}

// fieldsOf gathers the fields of a schema and of what it is made of.
func fieldsOf(schema object) (properties object, required []string, open bool) {
	properties, open = object{}, schema["additionalProperties"] == true
	own, _ := schema["properties"].(object)
	maps.Copy(properties, own)
	names, _ := schema["required"].([]any)
	for _, name := range names {
		required = append(required, name.(string))
	}
	members, _ := schema["allOf"].([]any)
	for _, member := range members {
		p, r, o := fieldsOf(resolve(member))
		maps.Copy(properties, p)
		required, open = append(required, r...), open || o
	}
	return properties, required, open
}
