package apidocs

import (
	"encoding/json"
	"strings"

	"go.yaml.in/yaml/v3"
)

// document is the description, read as nodes: they keep the order in which it was written.
type document struct{ root *yaml.Node }

// field is one name of a mapping with what stands under it.
type field struct {
	name  string
	value *yaml.Node
}

// real follows aliases and references to what is meant.
func (d *document) real(n *yaml.Node) *yaml.Node {
	for n != nil {
		if n.Kind == yaml.AliasNode {
			n = n.Alias
			continue
		}
		ref := plain(n, "$ref")
		if ref == nil {
			return n
		}
		n = d.root
		for _, name := range strings.Split(strings.TrimPrefix(ref.Value, "#/"), "/") {
			n = d.get(n, name)
		}
	}
	return nil
}

// plain gives what stands under a name of a mapping itself, without following anything.
func plain(n *yaml.Node, name string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

// get follows names from a node; nil where one is missing.
func (d *document) get(n *yaml.Node, names ...string) *yaml.Node {
	for _, name := range names {
		found := (*yaml.Node)(nil)
		for _, f := range d.fields(n) {
			if f.name == name {
				found = f.value
			}
		}
		n = found
	}
	return n
}

// text gives the scalar under names; empty without one.
func (d *document) text(n *yaml.Node, names ...string) string {
	if n = d.get(n, names...); n == nil {
		return ""
	}
	return n.Value
}

// fields lists a mapping's names in their order; those merged from another mapping come in its place.
func (d *document) fields(n *yaml.Node) (list []field) {
	n = d.real(n)
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		if name.Tag == "!!merge" {
			for _, merged := range d.fields(value) {
				if plain(n, merged.name) == nil {
					list = append(list, merged)
				}
			}
			continue
		}
		list = append(list, field{name.Value, value})
	}
	return list
}

// items lists a sequence.
func (d *document) items(n *yaml.Node) []*yaml.Node {
	if n = d.real(n); n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	return n.Content
}

// asJSON writes an example as JSON, in the order in which it was written.
func (d *document) asJSON(n *yaml.Node) string {
	var out strings.Builder
	d.writeJSON(&out, n, "")
	return out.String()
}

func (d *document) writeJSON(out *strings.Builder, n *yaml.Node, indent string) {
	n = d.real(n)
	if n == nil {
		return
	}
	switch n.Kind {
	case yaml.MappingNode:
		fields := d.fields(n)
		if len(fields) == 0 {
			out.WriteString("{}")
			return
		}
		for i, f := range fields {
			out.WriteString([]string{",", "{"}[btoi(i == 0)] + "\n" + indent + "  " + quoted(f.name) + ": ")
			d.writeJSON(out, f.value, indent+"  ")
		}
		out.WriteString("\n" + indent + "}")
	case yaml.SequenceNode:
		if len(n.Content) == 0 {
			out.WriteString("[]")
			return
		}
		for i, item := range n.Content {
			out.WriteString([]string{",", "["}[btoi(i == 0)] + "\n" + indent + "  ")
			d.writeJSON(out, item, indent+"  ")
		}
		out.WriteString("\n" + indent + "]")
	default:
		if n.Tag == "!!str" || n.Tag == "!!timestamp" {
			out.WriteString(quoted(n.Value))
			return
		}
		out.WriteString(n.Value)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func quoted(text string) string {
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // the template escapes
	if err := enc.Encode(text); err != nil {
		return `"` + text + `"`
	}
	return strings.TrimSuffix(out.String(), "\n")
}
