package apidocs

import (
	"html/template"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// view is what the page shows.
type view struct {
	Title, Version, Summary string
	Description             template.HTML
	Security                template.HTML
	Tags                    []tagView
	Schemas                 []schemaView
}

type tagView struct {
	Name        string
	Description template.HTML
	Operations  []operationView
}

type operationView struct {
	ID, Method, Path, Summary string
	// Scope is what an API key needs; empty where none is asked for.
	Scope       string
	Description template.HTML
	Parameters  []fieldView
	Body        []contentView
	Responses   []responseView
}

type responseView struct {
	Status      string
	Description template.HTML
	Headers     []fieldView
	Content     []contentView
}

// contentView is a body in one media type.
type contentView struct {
	Media   string
	Type    template.HTML
	Fields  []fieldView
	Example string
}

type schemaView struct {
	Name        string
	Description template.HTML
	Type        template.HTML
	Fields      []fieldView
}

// fieldView is a field, a parameter or a header.
type fieldView struct {
	Name, In    string
	Required    bool
	Type        template.HTML
	Description template.HTML
}

func (d *document) view() view {
	v := view{
		Title: d.text(d.root, "info", "title"), Version: d.text(d.root, "info", "version"), Summary: d.text(d.root, "info", "summary"),
		Description: prose(d.text(d.root, "info", "description")),
		Security:    prose(d.text(d.root, "components", "securitySchemes", "apiKey", "description")),
	}
	for _, tag := range d.items(d.get(d.root, "tags")) {
		name := d.text(tag, "name")
		v.Tags = append(v.Tags, tagView{name, prose(d.text(tag, "description")), d.operations(name)})
	}
	for _, s := range d.fields(d.get(d.root, "components", "schemas")) {
		v.Schemas = append(v.Schemas, schemaView{s.name, prose(d.text(s.value, "description")), d.typeOf(s.value), d.fieldsOf(s.value, "")})
	}
	return v
}

var methods = []string{"get", "put", "post", "delete", "patch"}

func (d *document) operations(tag string) (list []operationView) {
	for _, path := range d.fields(d.get(d.root, "paths")) {
		shared := d.items(d.get(path.value, "parameters"))
		for _, f := range d.fields(path.value) {
			if !slices.Contains(methods, f.name) || !slices.ContainsFunc(d.items(d.get(f.value, "tags")), func(n *yaml.Node) bool { return n.Value == tag }) {
				continue
			}
			list = append(list, d.operation(path.name, f, shared))
		}
	}
	return list
}

func (d *document) operation(path string, f field, shared []*yaml.Node) operationView {
	o := operationView{
		ID: d.text(f.value, "operationId"), Method: strings.ToUpper(f.name), Path: path, Summary: d.text(f.value, "summary"),
		Description: prose(d.text(f.value, "description")), Body: d.content(d.get(f.value, "requestBody", "content")),
	}
	for _, security := range d.items(d.get(f.value, "security")) {
		for _, scope := range d.items(d.get(security, "apiKey")) {
			o.Scope = scope.Value
		}
	}
	for _, p := range slices.Concat(shared, d.items(d.get(f.value, "parameters"))) {
		o.Parameters = append(o.Parameters, fieldView{
			d.text(p, "name"), d.text(p, "in"), d.text(p, "required") == "true", d.typeOf(d.get(p, "schema")), prose(d.text(p, "description")),
		})
	}
	for _, r := range d.fields(d.get(f.value, "responses")) {
		response := responseView{Status: r.name, Description: prose(d.text(r.value, "description")), Content: d.content(d.get(r.value, "content"))}
		for _, h := range d.fields(d.get(r.value, "headers")) {
			response.Headers = append(response.Headers, fieldView{Name: h.name, Type: d.typeOf(d.get(h.value, "schema")), Description: prose(d.text(h.value, "description"))})
		}
		o.Responses = append(o.Responses, response)
	}
	slices.SortFunc(o.Responses, func(a, b responseView) int { return strings.Compare(a.Status, b.Status) })
	return o
}

func (d *document) content(n *yaml.Node) (list []contentView) {
	for _, media := range d.fields(n) {
		schema := d.get(media.value, "schema")
		c := contentView{Media: media.name, Type: d.typeOf(schema)}
		if plain(schema, "$ref") == nil {
			c.Fields = d.fieldsOf(schema, "")
		}
		if example := d.get(media.value, "example"); example != nil {
			c.Example = d.asJSON(example)
		}
		list = append(list, c)
	}
	return list
}

// fieldsOf lists the fields of a schema and of those inside of it that have no name of their own, such as receivers[].account.
func (d *document) fieldsOf(schema *yaml.Node, within string) (list []fieldView) {
	for _, member := range d.items(d.get(schema, "allOf")) {
		list = append(list, d.fieldsOf(member, within)...)
	}
	var required []string
	for _, name := range d.items(d.get(schema, "required")) {
		required = append(required, name.Value)
	}
	for _, f := range d.fields(d.get(schema, "properties")) {
		list = append(list, fieldView{
			Name: within + f.name, Required: slices.Contains(required, f.name), Type: d.typeOf(f.value), Description: prose(d.ownText(f.value, "description")),
		})
		inner, name := f.value, within+f.name+"."
		if items := d.get(f.value, "items"); items != nil && plain(f.value, "$ref") == nil {
			inner, name = items, within+f.name+"[]."
		}
		if plain(inner, "$ref") == nil {
			list = append(list, d.fieldsOf(inner, name)...)
		}
	}
	return list
}

// ownText is a text that stands at the node itself, not at what it refers to: that is told there.
func (d *document) ownText(n *yaml.Node, name string) string {
	if plain(n, "$ref") != nil {
		return ""
	}
	return d.text(n, name)
}

// typeOf says in a few words what a value looks like; a schema with a name is a link to it.
func (d *document) typeOf(schema *yaml.Node) template.HTML {
	if schema == nil {
		return ""
	}
	if ref := plain(schema, "$ref"); ref != nil {
		name := template.HTMLEscapeString(ref.Value[strings.LastIndex(ref.Value, "/")+1:])
		return template.HTML(`<a href="#schema-` + name + `">` + name + `</a>`)
	}
	if items := d.get(schema, "items"); items != nil {
		return "list of " + d.typeOf(items)
	}
	var words []string
	if enum := d.items(d.get(schema, "enum")); enum != nil {
		for _, word := range enum {
			words = append(words, code(word.Value))
		}
		return template.HTML(strings.Join(words, ", "))
	}
	types := d.items(d.get(schema, "type"))
	if types == nil {
		types = []*yaml.Node{{Value: d.text(schema, "type")}}
	}
	for _, t := range types {
		if t.Value != "" {
			words = append(words, template.HTMLEscapeString(t.Value))
		}
	}
	text := strings.Join(words, " or ")
	for _, bound := range []struct{ name, says string }{
		{"format", ""}, {"pattern", "like "}, {"minLength", "at least "}, {"maxLength", "at most "}, {"minimum", "from "}, {"maximum", "to "},
		{"minItems", "at least "}, {"maxItems", "at most "}, {"default", "default "},
	} {
		if value := d.text(schema, bound.name); value != "" {
			text += ", " + bound.says + code(value)
		}
	}
	return template.HTML(text)
}

func code(text string) string { return "<code>" + template.HTMLEscapeString(text) + "</code>" }

var (
	codePattern = regexp.MustCompile("`([^`]+)`")
	boldPattern = regexp.MustCompile(`\*\*([^*]+)\*\*`)
)

// prose gives a description its paragraphs, `code` and **weight**; that is all that descriptions use.
func prose(text string) template.HTML {
	var out strings.Builder
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		if paragraph = strings.TrimSpace(paragraph); paragraph == "" {
			continue
		}
		paragraph = template.HTMLEscapeString(paragraph)
		paragraph = codePattern.ReplaceAllString(paragraph, "<code>$1</code>")
		paragraph = boldPattern.ReplaceAllString(paragraph, "<strong>$1</strong>")
		out.WriteString("<p>" + paragraph + "</p>\n")
	}
	return template.HTML(out.String())
}
