package api_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/paylatch/paylatch/api"
	"github.com/paylatch/paylatch/internal/channel"
	"github.com/paylatch/paylatch/internal/payment"
	"github.com/paylatch/paylatch/internal/refund"
	"github.com/paylatch/paylatch/internal/tenant"
	"github.com/paylatch/paylatch/internal/transfer"
)

func TestTheDescriptionHasTheRoutesThatExistAndNoOther(t *testing.T) {
	t.Parallel()
	engine, ok := api.Handler(api.Config{}).(*gin.Engine)
	require.True(t, ok)
	var routes, described []string
	colon := regexp.MustCompile(`:([a-z_]+)`)
	for _, route := range engine.Routes() {
		routes = append(routes, route.Method+" "+colon.ReplaceAllString(route.Path, "{$1}"))
	}
	for _, o := range operations() {
		described = append(described, o.Method+" "+o.Path)
	}
	require.ElementsMatch(t, routes, described)
}

func TestEveryOperationIsWhole(t *testing.T) {
	t.Parallel()
	ids := map[string]bool{}
	for _, o := range operations() {
		name := o.Method + " " + o.Path
		id, _ := o.node["operationId"].(string)
		require.NotEmpty(t, id, name)
		require.False(t, ids[id], "the operationId %s stands twice", id)
		ids[id] = true
		require.NotEmpty(t, o.node["summary"], name)

		var inPath []string
		shared, _ := document()["paths"].(object)[o.Path].(object)["parameters"].([]any)
		own, _ := o.node["parameters"].([]any)
		for _, p := range slices.Concat(shared, own) {
			parameter := resolve(p)
			require.NotEmpty(t, resolve(parameter["schema"]), name)
			if parameter["in"] == "path" {
				require.Equal(t, true, parameter["required"], name)
				inPath = append(inPath, "{"+parameter["name"].(string)+"}")
			}
		}
		require.ElementsMatch(t, parameterPattern.FindAllString(o.Path, -1), inPath, name)

		security, said := o.node["security"].([]any)
		require.True(t, said, "%s does not say who may call it", name)
		if !strings.HasPrefix(o.Path, "/v1/") {
			require.Empty(t, security, "%s: the merchant API and nothing else wants an API key", name)
			continue
		}
		require.Contains(t, texts(tenant.Scopes()), o.scope(t), name)
		for _, status := range []string{"401", "403", "429", "500", "503"} {
			require.NotNil(t, at(o.node, "responses", status), "%s %s", name, status)
		}
		if o.Method == http.MethodPost { // takes an idempotency key
			require.Subset(t, own, []any{
				object{"$ref": "#/components/parameters/idempotency_key"}, object{"$ref": "#/components/parameters/x_idempotency_key"},
				object{"$ref": "#/components/parameters/prefer"},
			}, name)
			for _, status := range []string{"202", "400", "409", "422"} {
				require.NotNil(t, at(o.node, "responses", status, "content", "application/problem+json"), "%s %s", name, status)
			}
		}
	}
}

func TestEveryExampleIsWhatItsSchemaSays(t *testing.T) {
	t.Parallel()
	examples := 0
	var walk func(node any, where string)
	walk = func(node any, where string) {
		switch v := node.(type) {
		case []any:
			for i, item := range v {
				walk(item, where+"/"+strconv.Itoa(i))
			}
		case object:
			if example, ok := v["example"]; ok && v["schema"] != nil {
				require.NoError(t, conforms(example, v["schema"], where))
				examples++
			}
			for name, child := range v {
				if ref, ok := child.(string); ok && name == "$ref" {
					require.NotEmpty(t, resolve(v), ref)
				}
				walk(child, where+"/"+name)
			}
		}
	}
	walk(document(), "")
	require.Greater(t, examples, 15)
}

func TestWordsOfTheSchemasAreThoseOfTheCode(t *testing.T) {
	t.Parallel()
	words := func(node any) (list []string) {
		for _, word := range resolve(node)["enum"].([]any) {
			if text, ok := word.(string); ok {
				list = append(list, text)
			}
		}
		return list
	}
	require.ElementsMatch(t, texts(payment.States()), words(schemaOf("PaymentState")))
	require.ElementsMatch(t, texts(payment.EventStates()), words(schemaOf("EventState")))
	event := schemaOf("Event")["properties"].(object)
	require.ElementsMatch(t, constants(t, "../internal/payment", "Outcome"), words(event["outcome"]))
	require.ElementsMatch(t, constants(t, "../internal/channel", "Kind"), words(event["kind"]))
	require.ElementsMatch(t, texts(refund.States()), words(schemaOf("RefundState")))
	require.ElementsMatch(t, constants(t, "../internal/refund", "Origin"), words(at(schemaOf("Refund"), "properties", "origin")))
	require.ElementsMatch(t, constants(t, "../internal/transfer", "State"), words(schemaOf("TransferState")))
	require.ElementsMatch(t, constants(t, "../internal/transfer", "Mode"), words(schemaOf("TransferMode")))
	require.ElementsMatch(t, []string{transfer.LedgerLeg, transfer.StockLeg, transfer.HTTPLeg}, words(at(schemaOf("Participant"), "properties", "type")))
	require.ElementsMatch(t, constants(t, "../internal/share", "State"), words(schemaOf("ShareState")))
	require.ElementsMatch(t, constants(t, "../internal/share", "LegState"), words(schemaOf("ShareLegState")))
	require.ElementsMatch(t, constants(t, "../internal/share", "ReturnState"), words(schemaOf("ShareReturnState")))
	require.ElementsMatch(t, constants(t, "../internal/tenant", "Scope"), words(schemaOf("Scope")))
	require.ElementsMatch(t, constants(t, "../internal/audit", "Action"), words(at(schemaOf("AuditEntry"), "properties", "action")))
	require.ElementsMatch(t, failures, words(at(schemaOf("Transfer"), "properties", "failure")))
}

// failures are the codes with which a transfer ends.
var failures = []string{
	transfer.InsufficientFunds, transfer.OutOfStock, transfer.AccountNotFound, transfer.SKUNotFound, transfer.AmountOutOfRange,
	transfer.ParticipantRefused, transfer.ParticipantAway, transfer.Canceled,
}

func texts[T ~string](list []T) (out []string) {
	for _, v := range list {
		out = append(out, string(v))
	}
	return out
}

// constants gives the values of the string constants of one type in a package.
func constants(t *testing.T, dir, typeName string) (values []string) {
	t.Helper()
	for _, file := range source(t, dir) {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if name, ok := spec.Type.(*ast.Ident); ok && name.Name == typeName {
				for _, v := range spec.Values {
					values = append(values, literal(v))
				}
			}
			return false
		})
	}
	require.NotEmpty(t, values)
	return values
}

func TestEveryCodeOfAProblemIsListedAndEveryListedOneExists(t *testing.T) {
	t.Parallel()
	inCode := codesOfTheSource(t)
	for _, refusal := range []*channel.Refusal{channel.ErrNoSignature, channel.ErrTwoHeaders, channel.ErrBadTimestamp, channel.ErrStale, channel.ErrFuture, channel.ErrBadSignature} {
		inCode[refusal.Code] = true
	}
	for _, code := range failures {
		inCode[code] = true
	}
	listed := map[string]bool{}
	for _, schema := range []string{"Problem", "CallbackProblem"} {
		codes := at(schemaOf(schema), "properties", "code", "enum").([]any)
		require.True(t, slices.IsSortedFunc(codes, func(a, b any) int { return strings.Compare(a.(string), b.(string)) }), schema)
		for _, code := range codes {
			listed[code.(string)] = true
		}
	}
	require.Equal(t, slices.Sorted(maps.Keys(inCode)), slices.Sorted(maps.Keys(listed)))
}

// codesOfTheSource reads the codes out of this package's text: literals where a problem is made, and <field>_invalid for
// every field of a request and every checked query parameter.
func codesOfTheSource(t *testing.T) map[string]bool {
	t.Helper()
	codes := map[string]bool{}
	// The argument of each function that is, or names, a code.
	argument := map[string]int{"badRequest": 0, "newProblem": 1, "refuse": 3}
	field := map[string]int{"fieldCode": 0, "queryTime": 1, "queryOneOf": 1}
	// What stands inside of a list goes by the list's name.
	listed := map[string]bool{}
	for _, file := range source(t, ".") {
		ast.Inspect(file, func(n ast.Node) bool {
			if list, ok := n.(*ast.ArrayType); ok {
				if name, ok := list.Elt.(*ast.Ident); ok {
					listed[name.Name] = true
				}
			}
			return true
		})
	}
	for _, file := range source(t, ".") {
		ast.Inspect(file, func(n ast.Node) bool {
			switch v := n.(type) {
			case *ast.CallExpr:
				name := called(v)
				if i, ok := argument[name]; ok && literal(v.Args[i]) != "" {
					codes[literal(v.Args[i])] = true
				}
				if i, ok := field[name]; ok && literal(v.Args[i]) != "" {
					codes[literal(v.Args[i])+"_invalid"] = true
				}
			case *ast.ValueSpec:
				if v.Names[0].Name == "known" {
					ast.Inspect(v, func(n ast.Node) bool {
						if e, ok := n.(ast.Expr); ok && literal(e) != "" {
							codes[literal(e)] = true
						}
						return true
					})
				}
			case *ast.TypeSpec:
				if strings.HasSuffix(v.Name.Name, "Request") && !listed[v.Name.Name] {
					addFields(codes, v.Type)
				}
			case *ast.DeclStmt: // a request of one handler
				ast.Inspect(v, func(n ast.Node) bool {
					if s, ok := n.(*ast.StructType); ok {
						addFields(codes, s)
					}
					return true
				})
			}
			return true
		})
	}
	return codes
}

func addFields(codes map[string]bool, node ast.Expr) {
	fields, ok := node.(*ast.StructType)
	if !ok {
		return
	}
	for _, f := range fields.Fields.List {
		if f.Tag != nil {
			name, _, _ := strings.Cut(reflect.StructTag(literal(f.Tag)).Get("json"), ",")
			codes[name+"_invalid"] = true
		}
	}
}

func called(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// literal gives the text of a string literal, empty for anything else.
func literal(e ast.Expr) string {
	if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
		text, _ := strconv.Unquote(l.Value)
		return text
	}
	return ""
}

// source parses the files of a package that are not tests.
func source(t *testing.T, dir string) (files []*ast.File) {
	t.Helper()
	names, err := fs.Glob(os.DirFS(dir), "*.go")
	require.NoError(t, err)
	for _, name := range names {
		if !strings.HasSuffix(name, "_test.go") {
			file, err := parser.ParseFile(token.NewFileSet(), dir+"/"+name, nil, 0)
			require.NoError(t, err)
			files = append(files, file)
		}
	}
	require.NotEmpty(t, files)
	return files
}
