package main

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.yaml.in/yaml/v3"

	"github.com/paylatch/paylatch/api"
	"github.com/paylatch/paylatch/internal/database"
	"github.com/paylatch/paylatch/internal/engine"
	"github.com/paylatch/paylatch/internal/sealed"
	"github.com/paylatch/paylatch/worker"
)

// The compose file is configuration that no compiler reads: these tests hold it against the program.

const repository = "../.."

// builtImage is the image that the repository's Dockerfile makes.
const builtImage = "paylatch:local"

type compose struct {
	Services map[string]composeService `yaml:"services"`
}

type composeService struct {
	Image           string            `yaml:"image"`
	Build           string            `yaml:"build"`
	PullPolicy      string            `yaml:"pull_policy"`
	ContainerName   string            `yaml:"container_name"`
	Command         []string          `yaml:"command"`
	Entrypoint      []string          `yaml:"entrypoint"`
	Environment     map[string]string `yaml:"environment"`
	Ports           []string          `yaml:"ports"`
	Volumes         []string          `yaml:"volumes"`
	Restart         string            `yaml:"restart"`
	StopGracePeriod time.Duration     `yaml:"stop_grace_period"`
	DependsOn       map[string]struct {
		Condition string `yaml:"condition"`
	} `yaml:"depends_on"`
	Healthcheck struct {
		Test []string `yaml:"test"`
	} `yaml:"healthcheck"`
}

func readCompose(t *testing.T) (c compose) {
	t.Helper()
	require.NoError(t, yaml.Unmarshal(readFile(t, "docker-compose.yml"), &c))
	require.NotEmpty(t, c.Services)
	return c
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(repository, name))
	require.NoError(t, err)
	return content
}

// own are the services that run paylatch itself.
func (c compose) own() map[string]composeService {
	own := maps.Clone(c.Services)
	maps.DeleteFunc(own, func(_ string, s composeService) bool { return s.Image != builtImage })
	return own
}

// endsByItself are the jobs: others wait until they have ended.
func (c compose) endsByItself(name string) bool {
	for _, s := range c.Services {
		if s.DependsOn[name].Condition == "service_completed_successfully" {
			return true
		}
	}
	return false
}

// reference is ${NAME}, ${NAME:?message} or ${NAME:-default}.
var reference = regexp.MustCompile(`\$\{([A-Z_]+)(:[?-])?([^}]*)\}`)

// interpolated is the environment as the containers get it where the .env file holds values.
func (s composeService) interpolated(values map[string]string) map[string]string {
	env := map[string]string{}
	for name, value := range s.Environment {
		env[name] = reference.ReplaceAllStringFunc(value, func(ref string) string {
			part := reference.FindStringSubmatch(ref)
			if given := values[part[1]]; given != "" || part[2] != ":-" {
				return given
			}
			return part[3]
		})
	}
	return env
}

// dotEnv is a filled .env: what deploy/env.example leaves open has a value of its own each.
func dotEnv(t *testing.T) map[string]string {
	t.Helper()
	values := map[string]string{}
	for _, match := range regexp.MustCompile(`(?m)^([A-Z_]+)=$`).FindAllStringSubmatch(string(readFile(t, "deploy/env.example")), -1) {
		values[match[1]] = strings.ToLower(strings.ReplaceAll(match[1], "_", "")) + "0123456789abcdef"
	}
	require.Contains(t, values, masterKeyEnv)
	values[masterKeyEnv] = sealed.NewKey()
	return values
}

// onlyEnvironment gives the process these variables and none of paylatch's and Temporal's that it had.
func onlyEnvironment(t *testing.T, env map[string]string) {
	t.Helper()
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, "PAYLATCH_") || strings.HasPrefix(name, "TEMPORAL_") {
			t.Setenv(name, "") // so that it comes back
			require.NoError(t, os.Unsetenv(name))
		}
	}
	for name, value := range env {
		t.Setenv(name, value)
	}
}

// parse makes the command that a service runs, configured by its environment.
func (s composeService) parse(t *testing.T, values map[string]string) *kong.Context {
	t.Helper()
	onlyEnvironment(t, s.interpolated(values))
	parser, err := newParser()
	require.NoError(t, err)
	command, err := parser.Parse(s.Command)
	require.NoError(t, err)
	return command
}

func TestComposeRunsCommandsThatExistWithEverythingTheyNeed(t *testing.T) {
	c, values := readCompose(t), dotEnv(t)
	require.NotEmpty(t, c.own())
	migrate := c.Services["migrate"].interpolated(values)

	var commands []string
	for name, service := range c.own() {
		t.Run(name, func(t *testing.T) {
			require.Empty(t, service.Entrypoint, "the image's own entry point is the program")
			command := service.parse(t, values)
			commands = append(commands, command.Command())
			switch run := command.Selected().Target.Interface().(type) {
			case migrateUp:
				ownerURL, err := run.url()
				require.NoError(t, err)
				c.requireDatabase(t, values, ownerURL)
				// Without them the roles cannot log in.
				require.NotEmpty(t, migrate["PAYLATCH_API_PASSWORD"])
				require.NotEmpty(t, migrate["PAYLATCH_ENGINE_PASSWORD"])
			case serveCommand:
				requireRole(t, migrate, run.DatabaseURL, database.RoleEngine, "PAYLATCH_ENGINE_PASSWORD")
				requireRole(t, migrate, run.APIDatabaseURL, database.RoleAPI, "PAYLATCH_API_PASSWORD")
				requireMasterKey(t, run.keyFlags)
				require.True(t, strings.HasPrefix(run.HTTP, "0.0.0.0:"), "other containers and the published port must reach %s", run.HTTP)
				require.NotEmpty(t, run.TemporalUI)
				c.requireTemporal(t)
			case workerCommand:
				requireRole(t, migrate, run.DatabaseURL, database.RoleEngine, "PAYLATCH_ENGINE_PASSWORD")
				requireMasterKey(t, run.keyFlags)
				require.NotEmpty(t, run.Ops)
				c.requireTemporal(t)
			default:
				require.Fail(t, "no rule says what this command needs: "+command.Command())
			}
		})
	}
	for _, needed := range []string{"migrate up", "serve", "worker"} {
		require.Contains(t, commands, needed)
	}
}

// requireDatabase holds a URL against the PostgreSQL service that it names.
func (c compose) requireDatabase(t *testing.T, values map[string]string, databaseURL string) {
	t.Helper()
	u, err := url.Parse(databaseURL)
	require.NoError(t, err)
	require.Contains(t, c.Services, u.Hostname())
	server := c.Services[u.Hostname()].interpolated(values)
	password, _ := u.User.Password()
	require.Equal(t, server["POSTGRES_USER"], u.User.Username())
	require.Equal(t, server["POSTGRES_PASSWORD"], password)
	require.Equal(t, "/"+server["POSTGRES_DB"], u.Path)
}

// requireRole holds a URL against the database that migrate brings up to date and the password that it gives the role.
func requireRole(t *testing.T, migrate map[string]string, databaseURL, role, password string) {
	t.Helper()
	u, err := url.Parse(databaseURL)
	require.NoError(t, err)
	set, _ := u.User.Password()
	require.Equal(t, role, u.User.Username())
	require.Equal(t, migrate[password], set)
	owner, err := url.Parse(migrate["PAYLATCH_OWNER_DATABASE_URL"])
	require.NoError(t, err)
	require.Equal(t, owner.Host, u.Host)
	require.Equal(t, owner.Path, u.Path)
}

func requireMasterKey(t *testing.T, keys keyFlags) {
	t.Helper()
	_, err := keys.box("")
	require.NoError(t, err)
}

// requireTemporal holds the connection that the environment configures against the services that serve it.
func (c compose) requireTemporal(t *testing.T) {
	t.Helper()
	require.NotEmpty(t, os.Getenv("TEMPORAL_ADDRESS"), "localhost is no other container")
	options, err := engine.Options("", zap.NewNop())
	require.NoError(t, err)
	host, port, err := net.SplitHostPort(options.HostPort)
	require.NoError(t, err)
	require.Contains(t, c.Services, host)
	require.Equal(t, "7233", port)
	require.Equal(t, c.Services["temporal-namespace"].Environment["TEMPORAL_NAMESPACE"], options.Namespace)
}

func TestComposeSetsOnlyVariablesThatTheCommandReads(t *testing.T) {
	c, values := readCompose(t), dotEnv(t)
	// Secrets are never flags, so the model does not know them.
	secrets := map[string][]string{
		"serve":      {masterKeyEnv},
		"worker":     {masterKeyEnv},
		"migrate up": {"PAYLATCH_API_PASSWORD", "PAYLATCH_ENGINE_PASSWORD"},
	}
	for name, service := range c.Services {
		t.Run(name, func(t *testing.T) {
			var read []string
			if service.Image == builtImage {
				command := service.parse(t, values)
				read = slices.Clone(secrets[command.Command()])
				for node := command.Selected(); node != nil; node = node.Parent {
					for _, flag := range node.Flags {
						read = append(read, flag.Envs...)
					}
				}
				require.NotEmpty(t, read)
			}
			for variable := range service.Environment {
				if strings.HasPrefix(variable, "PAYLATCH_") {
					require.Contains(t, read, variable)
				}
			}
		})
	}
}

func TestComposeHasOneWorkerServicePerTaskQueue(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	served := map[string]string{}
	for name, service := range c.own() {
		if service.Command[0] != "worker" {
			continue
		}
		queue := service.Environment["PAYLATCH_QUEUES"]
		require.Contains(t, worker.Queues(), queue, "service %s", name)
		require.Empty(t, served[queue], "queue %s has two services", queue)
		served[queue] = name
		require.Equal(t, "worker-"+queue, name)
		require.Empty(t, service.ContainerName, "%s could not be scaled", name)
		require.Empty(t, service.Ports, "%s could not be scaled", name)
	}
	require.ElementsMatch(t, worker.Queues(), slices.Collect(maps.Keys(served)))
}

func TestComposePinsImages(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	images := map[string]string{}
	builds := 0
	for name, service := range c.Services {
		if service.Image == builtImage {
			require.Equal(t, "never", service.PullPolicy, "service %s: no registry has this image", name)
			if service.Build != "" {
				require.Equal(t, ".", service.Build)
				builds++
			}
			continue
		}
		images["service "+name] = service.Image
	}
	require.Equal(t, 1, builds, "one service builds the image for all")
	for _, from := range regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(string(readFile(t, "Dockerfile")), -1) {
		images["Dockerfile: "+from[1]] = from[1]
	}
	require.Greater(t, len(images), 5)
	for where, image := range images {
		require.Regexp(t, `^[a-z./-]+:v?\d+\.\d+`, image, where)
	}
	require.NotContains(t, strings.Join(slices.Collect(maps.Values(images)), " "), "auto-setup", "it is deprecated")

	// Server and schema tool belong together.
	_, server, _ := strings.Cut(c.Services["temporal"].Image, ":")
	for _, name := range []string{"temporal-schema", "temporal-namespace"} {
		require.Equal(t, "temporalio/admin-tools:"+server, c.Services[name].Image)
	}
}

func TestComposeChecksTheHealthOfWhatKeepsRunning(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	comments := serviceComments(t)
	for name, service := range c.Services {
		if c.endsByItself(name) {
			require.Empty(t, service.Healthcheck.Test, "%s ends by itself", name)
			require.Equal(t, "no", service.Restart, name)
			continue
		}
		require.Equal(t, "unless-stopped", service.Restart, name)
		if len(service.Healthcheck.Test) == 0 {
			require.Contains(t, comments[name], "No health check:", "%s has none, so a comment says why", name)
			continue
		}
		require.Equal(t, "CMD", service.Healthcheck.Test[0], name)
	}
	for name, service := range c.Services {
		for other, dependency := range service.DependsOn {
			require.Contains(t, c.Services, other, name)
			switch dependency.Condition {
			case "service_healthy":
				require.NotEmpty(t, c.Services[other].Healthcheck.Test, "%s waits for the health of %s", name, other)
			case "service_completed_successfully":
			default:
				require.Fail(t, name+" does not say what it waits for in "+other)
			}
		}
	}
}

// serviceComments are the comments above each service.
func serviceComments(t *testing.T) map[string]string {
	t.Helper()
	var document yaml.Node
	require.NoError(t, yaml.Unmarshal(readFile(t, "docker-compose.yml"), &document))
	comments := map[string]string{}
	top := document.Content[0].Content
	for i := 0; i < len(top); i += 2 {
		if top[i].Value != "services" {
			continue
		}
		services := top[i+1].Content
		for j := 0; j < len(services); j += 2 {
			comments[services[j].Value] = services[j].HeadComment
		}
	}
	require.NotEmpty(t, comments)
	return comments
}

func TestComposeProbesWhatTheProgramServes(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	apiHandler := api.Handler(api.Config{
		DatabaseReady: func(context.Context) error { return nil },
		EngineReady:   func(context.Context) error { return errors.New("away") },
		Log:           zap.NewNop(),
	})
	probed := 0
	for name, service := range c.own() {
		var handler http.Handler
		var address string
		switch service.Command[0] {
		case "serve":
			handler, address = apiHandler, service.Environment["PAYLATCH_HTTP"]
			require.Len(t, service.Ports, 1)
			require.True(t, strings.HasSuffix(service.Ports[0], address[strings.LastIndex(address, ":"):]), "the published port is the one that listens")
		case "worker":
			handler, address = opsHandler(), service.Environment["PAYLATCH_OPS"]
		default:
			continue
		}
		probed++
		require.NotEmpty(t, service.Healthcheck.Test, name)
		probe, err := url.Parse(service.Healthcheck.Test[len(service.Healthcheck.Test)-1])
		require.NoError(t, err)
		_, port, err := net.SplitHostPort(address)
		require.NoError(t, err)
		require.Equal(t, "127.0.0.1:"+port, probe.Host, name)
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, probe.Path, nil))
		require.Less(t, answer.Code, 300, "%s: GET %s while Temporal is away", name, probe.Path)
		// Longer than the worker's stop time-out and the API's.
		require.Greater(t, service.StopGracePeriod, 20*time.Second, name)
	}
	require.Equal(t, 1+len(worker.Queues()), probed)
}

func TestComposeHoldsNoSecret(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	secretName := regexp.MustCompile(`PASSWORD|PASSWD|PWD|KEY|SECRET|TOKEN`)
	// A default would be a secret in the file as well; without one the tool says what to do.
	demanded := regexp.MustCompile(`^\$\{[A-Z_]+:\?[^}]+\}$`)
	for name, service := range c.Services {
		for variable, value := range service.Environment {
			if secretName.MatchString(variable) {
				require.Regexp(t, demanded, value, "%s: %s", name, variable)
			}
		}
	}
	var document yaml.Node
	require.NoError(t, yaml.Unmarshal(readFile(t, "docker-compose.yml"), &document))
	inURL := regexp.MustCompile(`://[^/@:]*:(.*)@`)
	urls := 0
	everyScalar(&document, func(value string) {
		if found := inURL.FindStringSubmatch(value); found != nil {
			urls++
			require.Regexp(t, demanded, found[1], "the password in a URL")
		}
	})
	require.Positive(t, urls)
}

func everyScalar(node *yaml.Node, do func(string)) {
	if node.Kind == yaml.ScalarNode {
		do(node.Value)
	}
	for _, child := range node.Content {
		everyScalar(child, do)
	}
}

func TestComposePublishesToThisMachineAlone(t *testing.T) {
	t.Parallel()
	published := 0
	for name, service := range readCompose(t).Services {
		for _, port := range service.Ports {
			require.Regexp(t, `^127\.0\.0\.1:\d+:\d+$`, port, name)
			published++
		}
	}
	require.Equal(t, 2, published, "the API and the Temporal UI")
}

func TestComposeMountsFilesThatAreThere(t *testing.T) {
	t.Parallel()
	mounted := 0
	for name, service := range readCompose(t).Services {
		inside := map[string]string{}
		for _, volume := range service.Volumes {
			if !strings.HasPrefix(volume, ".") {
				continue
			}
			parts := strings.Split(volume, ":")
			require.Len(t, parts, 3, name)
			require.Equal(t, "ro", parts[2], name)
			inside[parts[1]] = parts[0]
		}
		used := slices.Concat(service.Entrypoint, service.Command, slices.Collect(maps.Values(service.Environment)))
		for target, source := range inside {
			for _, path := range used {
				if rest, ok := strings.CutPrefix(path, target+"/"); ok {
					require.FileExists(t, filepath.Join(repository, source, rest), name)
					mounted++
				}
			}
		}
	}
	require.Equal(t, 3, mounted)
}

func TestEnvironmentExampleNamesWhatComposeDemands(t *testing.T) {
	t.Parallel()
	var demanded, offered, optional []string
	for _, found := range reference.FindAllStringSubmatch(string(readFile(t, "docker-compose.yml")), -1) {
		if found[2] == ":?" {
			demanded = append(demanded, found[1])
		} else {
			optional = append(optional, found[1])
		}
	}
	example := string(readFile(t, "deploy/env.example"))
	for _, found := range regexp.MustCompile(`(?m)^([A-Z_]+)=(.*)$`).FindAllStringSubmatch(example, -1) {
		require.Empty(t, found[2], "the example holds no value for %s", found[1])
		offered = append(offered, found[1])
	}
	slices.Sort(demanded)
	require.ElementsMatch(t, slices.Compact(demanded), offered)
	for _, name := range optional {
		require.Contains(t, example, "#"+name+"=")
	}
	script := string(readFile(t, "deploy/make-env.sh"))
	for _, name := range offered {
		require.Contains(t, script, "echo \""+name+"=$(")
	}
}
