package provider

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What is set keeps the type that the sample has in its place: Adyen's "success" is
// text, its amounts are numbers.
func TestTypesOfASample(t *testing.T) {
	t.Parallel()
	adyen := mustNew(t, sourceOf(t, "adyen"))
	for pair, want := range map[string]string{
		"success=false":        `"success":"false"`,
		`success="false"`:      `"success":"false"`,
		"success:=false":       `"success":false`,
		"amount.value=7":       `"value":7`,
		"pspReference=12":      `"pspReference":"12"`,
		"merchantReference=a=": `"merchantReference":"a="`,
		"note=true":            `"note":true`,
		`note="true"`:          `"note":"true"`,
		"note=yes":             `"note":"yes"`,
		`note:={"a":[1]}`:      `"note":{"a":[1]}`,
		"success:=null":        `"success":null`,
	} {
		body, _, err := adyen.Compose(Sample{ID: "P1", Set: []string{"NotificationRequestItem." + pair}})
		require.NoError(t, err, pair)
		require.Contains(t, string(body), want, pair)
	}
	_, _, err := adyen.Compose(Sample{ID: "P1", Set: []string{"note:=yes"}})
	require.EqualError(t, err, `set: "note:=yes": what follows := is not JSON; write note=value for text`)
	for name, place := range map[string]string{"adyen": "header:x-note", "braintree": "bt_payload.notification.kind"} {
		_, _, err := mustNew(t, sourceOf(t, name)).Compose(Sample{ID: "1", Set: []string{place + ":=1"}})
		require.ErrorContains(t, err, "hold text alone; write "+place+"=value")
	}
}
