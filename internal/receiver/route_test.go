package receiver

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRoute(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/webhooks/stripe":        "stripe",
		"/webhooks/stripe/":       "stripe",
		"//webhooks/stripe":       "stripe",
		"/webhooks//stripe//":     "stripe",
		"/webhooks/my-shop_2":     "my-shop_2",
		"":                        "",
		"/":                       "",
		"*":                       "",
		"webhooks/stripe":         "",
		"/webhooks":               "",
		"/webhooks/":              "",
		"/webhook/stripe":         "",
		"/webhooks/stripe/more":   "",
		"/webhooks/stripe/./":     "",
		"/more/webhooks/stripe":   "",
		"/WEBHOOKS/stripe":        "",
		"/webhooks/../stripe":     "",
		"/healthz":                "",
		"/webhooks/stripe//more/": "",
	} {
		got, ok := route(path)
		if want == "" {
			require.False(t, ok, path)
			continue
		}
		require.True(t, ok, path)
		require.Equal(t, want, got, path)
	}
}

func FuzzRoute(f *testing.F) {
	for _, path := range []string{"/webhooks/a", "//webhooks//a/", "/webhooks/a/b", "*", "", "/webhooks/%2F"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		source, ok := route(path)
		// The same question asked in another way.
		segments := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
		want := strings.HasPrefix(path, "/") && len(segments) == 2 && segments[0] == prefix
		require.Equal(t, want, ok)
		if ok {
			require.Equal(t, segments[1], source)
			again, ok := route("/" + prefix + "/" + source + "/")
			require.True(t, ok)
			require.Equal(t, source, again)
		}
	})
}
