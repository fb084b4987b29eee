package provider

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/onceledger/onceledger/internal/config"
)

// generic is a source of provider hmac without faults.
func genericConfig() config.Source {
	src := configured("hmac", "k")
	src.ID = text("body:id")
	src.HMAC = &config.HMAC{Header: "X-Signature"}
	return src
}

// Case 46, and whatever else New refuses.
func TestNewReportsFaults(t *testing.T) {
	t.Parallel()
	type source = config.Source
	for name, row := range map[string]struct {
		src   source
		spoil func(*source)
		path  string
		has   string
	}{
		"unknown provider":  {configured("acme", "k"), nil, "provider", "; there are adyen, adyen-platform, alipay, "},
		"nearly a provider": {configured("strpie", "k"), nil, "provider", `did you mean "stripe"?`},
		"no secret":         {configured("stripe"), nil, "secrets", "at least one"},
		"empty secret":      {configured("stripe", "k", ""), nil, "secrets[1]", "is empty"},
		"blank secret":      {configured("github", " \n"), nil, "secrets[0]", "is empty"},
		"too many secrets":  {configured("github", "1", "2", "3", "4", "5", "6", "7", "8", "9"), nil, "secrets", "too many"},
		"only a prefix":     {configured("standard-webhooks", "whsec_"), nil, "secrets[0]", "no base64"},
		"no base64":         {configured("standard-webhooks", "whsec_%%"), nil, "secrets[0]", "no base64"},
		"short public key":  {configured("standard-webhooks", "whpk_AAAA"), nil, "secrets[0]", "has 3 bytes, not 32"},
		"short private":     {configured("standard-webhooks", "whsk_AAAA"), nil, "secrets[0]", "has 3 bytes"},
		"foreign public half": {configured("standard-webhooks",
			"whsk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=="),
			nil, "secrets[0]", "not its own"},
		"hmac beside stripe": {configured("stripe", "k"), func(s *source) { s.HMAC = &config.HMAC{} }, "hmac", "of its own"},
		"id of a preset":     {configured("stripe", "k"), func(s *source) { s.ID = text("body:id") }, "id", "leave it out"},
		"tolerance of github": {configured("github", "k"), func(s *source) { s.Tolerance = time.Minute },
			"tolerance", "no time is signed"},

		"no hmac block":     {genericConfig(), func(s *source) { s.HMAC = nil }, "hmac", "needs this block"},
		"no id":             {genericConfig(), func(s *source) { s.ID = text("") }, "id", "is needed"},
		"id nowhere":        {genericConfig(), func(s *source) { s.ID = text("query:id") }, "id", "no place"},
		"id in no header":   {genericConfig(), func(s *source) { s.ID = text("header:") }, "id", "no place"},
		"id in odd header":  {genericConfig(), func(s *source) { s.ID = text("header:a b") }, "id", "no place"},
		"empty path member": {genericConfig(), func(s *source) { s.Type = text("body:a..b") }, "type", "no place"},
		"bad time":          {genericConfig(), func(s *source) { s.Time = text("created") }, "time", "no place"},
		"bad account":       {genericConfig(), func(s *source) { s.Account = text("body:") }, "account", "no place"},
		"bad mode":          {genericConfig(), func(s *source) { s.LiveMode = text("live") }, "live_mode", "no place"},
		"no header":         {genericConfig(), func(s *source) { s.HMAC.Header = "" }, "hmac.header", "no header name"},
		"odd algorithm":     {genericConfig(), func(s *source) { s.HMAC.Algorithm = "md5" }, "hmac.algorithm", "md5"},
		"odd encoding":      {genericConfig(), func(s *source) { s.HMAC.Encoding = "base58" }, "hmac.encoding", "base58"},
		"body not signed":   {genericConfig(), func(s *source) { s.HMAC.Content = text("{id}"); s.HMAC.IDHeader = "X" }, "hmac.content", "{body}"},
		"odd placeholder":   {genericConfig(), func(s *source) { s.HMAC.Content = text("{url}{body}") }, "hmac.content", "{url}"},
		"open placeholder":  {genericConfig(), func(s *source) { s.HMAC.Content = text("{body}{") }, "hmac.content", "no placeholder"},
		"no time header":    {genericConfig(), func(s *source) { s.HMAC.Content = text("{timestamp}{body}") }, "hmac.timestamp_header", "{timestamp}"},
		"unsigned time":     {genericConfig(), func(s *source) { s.HMAC.TimestampHeader = "X-Time" }, "hmac.content", "not signed"},
		"no id header":      {genericConfig(), func(s *source) { s.HMAC.Content = text("{id}{body}") }, "hmac.id_header", "{id}"},
		"unsigned id":       {genericConfig(), func(s *source) { s.HMAC.IDHeader = "X-Id" }, "hmac.content", "not signed"},
	} {
		t.Run(name, func(t *testing.T) {
			if row.spoil != nil {
				row.spoil(&row.src)
			}
			s, faults := New(row.src)
			require.Nil(t, s)
			var paths []string
			for _, fault := range faults {
				paths = append(paths, fault.Path)
				if fault.Path == "sources.src."+row.path {
					require.Contains(t, fault.Message, row.has)
				}
			}
			require.Contains(t, paths, "sources.src."+row.path)
		})
	}
}

func TestFaultsPointAtTheirText(t *testing.T) {
	t.Parallel()
	src := genericConfig()
	src.ID = text("nowhere")
	src.HMAC.Content = text("{nothing}")
	_, faults := New(src)
	require.Len(t, faults, 2)
	require.Equal(t, src.HMAC.Content.Pos, faults[0].Pos)
	require.Equal(t, src.ID.Pos, faults[1].Pos)
}
