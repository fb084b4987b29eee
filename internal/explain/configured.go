package explain

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/onceledger/onceledger/internal/config"
	"github.com/onceledger/onceledger/internal/provider"
)

// secrets looks for secrets that were copied with something around them, or that
// are meant in another way. No cause holds a secret.
func (q *inquiry) secrets() []Cause {
	for i, secret := range q.src.Config.Secrets {
		for _, other := range retyped(secret.Reveal()) {
			src := q.src.Config
			src.Secrets = slices.Clone(src.Secrets)
			src.Secrets[i] = config.NewSecret(other.text)
			if q.with(src) {
				return []Cause{{
					Kind: "secret",
					What: fmt.Sprintf("secrets[%d] is not what the provider signs with: %s, the signature is right", i, other.what),
					Do:   other.do,
				}}
			}
		}
	}
	return nil
}

// retype is a secret as it may have been meant.
type retype struct{ text, what, do string }

func retyped(secret string) []retype {
	const (
		copied = "copy the secret again, and nothing around it; what an env file or a shell takes for quotes may reach the program"
		whole  = "write the secret as the provider shows it, prefix included"
		meant  = "the sender takes the secret in another form than this provider's scheme; write it in the form that is tried here"
	)
	plain := strings.TrimPrefix(strings.TrimPrefix(secret, "v1,"), "whsec_")
	var list []retype
	add := func(text string, ok bool, what, do string) {
		if ok && text != secret && text != "" {
			list = append(list, retype{text, what, do})
		}
	}
	add(strings.Trim(secret, `"'`), true, "without the quotes around it", copied)
	add(plain, true, "without its prefix", meant)
	add("whsec_"+plain, true, "with whsec_ before it", whole)
	add(secret+"\n", true, "with a newline after it", "the sender's copy of the secret ends in a newline: write it anew there, or here with the newline")
	raw, err := hex.DecodeString(secret)
	add(string(raw), err == nil, "decoded from hex", meant)
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		raw, err = encoding.DecodeString(plain)
		add(string(raw), err == nil, "decoded from base64", meant)
	}
	for _, text := range []string{plain, secret} {
		add("whsec_"+base64.StdEncoding.EncodeToString([]byte(text)), true, "with its text as the key, not what that is base64 of", meant)
	}
	return list
}

// sources looks among the other sources: the request may be one of theirs, or be
// signed with one of their secrets.
func (q *inquiry) sources() []Cause {
	names := slices.Sorted(maps.Keys(q.cat.Sources))
	names = slices.DeleteFunc(names, func(name string) bool { return name == q.src.Config.Name.Value })
	for _, name := range names {
		if q.right(q.cat.Sources[name].Source, q.request) {
			return []Cause{{
				Kind: "source",
				What: fmt.Sprintf("it is a request of source %s, which accepts it", name),
				Do:   fmt.Sprintf("let the provider call /webhooks/%s, or exchange the secrets of the two sources: each endpoint, and test and live mode, has its own", name),
			}}
		}
	}
	for _, name := range names {
		other := q.cat.Sources[name].Config
		for _, swap := range []struct {
			what string
			set  func(*config.Source)
			ok   bool
		}{
			{"a secret", func(s *config.Source) { s.Secrets = other.Secrets }, len(other.Secrets) > 0},
			{"a public key", func(s *config.Source) { s.PublicKeys = other.PublicKeys }, len(other.PublicKeys) > 0},
			{"the webhook_id", func(s *config.Source) { s.WebhookID = other.WebhookID }, other.WebhookID.Value != ""},
		} {
			src := q.src.Config
			swap.set(&src)
			if swap.ok && q.with(src) {
				return []Cause{{
					Kind: "source",
					What: fmt.Sprintf("with %s of source %s the signature is right", swap.what, name),
					Do:   "the two are exchanged in the configuration, or the provider calls the wrong endpoint: each endpoint, and test and live mode, has its own",
				}}
			}
		}
	}
	return nil
}

// settings tries other ways to write a signature, where an hmac: block says it.
func (q *inquiry) settings() []Cause {
	given := q.src.Config.HMAC
	if given == nil {
		return nil
	}
	prefixes := []string{given.Prefix, ""}
	for _, value := range q.request.Header.Values(given.Header) {
		if prefix, _, found := strings.Cut(value, "="); found {
			prefixes = append(prefixes, prefix+"=")
		}
	}
	for _, prefix := range prefixes {
		for _, encoding := range []string{"hex", "base64"} {
			for _, algorithm := range []string{"sha256", "sha1", "sha512"} {
				block, src := *given, q.src.Config
				block.Prefix, block.Encoding, block.Algorithm = prefix, encoding, algorithm
				src.HMAC = &block
				if q.with(src) {
					return []Cause{{
						Kind: "settings",
						What: "the hmac: block says it otherwise than the sender signs",
						Do:   fmt.Sprintf("write hmac: {header: %s, prefix: %q, encoding: %s, algorithm: %s}", given.Header, prefix, encoding, algorithm),
					}}
				}
			}
		}
	}
	return nil
}

// takes reports whether a source of this provider may have a key.
func takes(known provider.Description, key string) bool {
	return slices.ContainsFunc(known.Settings, func(s provider.Setting) bool { return s.Key == key })
}

// providers tries the secrets with the scheme of every other provider.
func (q *inquiry) providers() []Cause {
	have := q.src.Config
	for _, name := range provider.Names() {
		if name == have.Provider.Value || name == "hmac" {
			continue
		}
		known, _ := provider.Describe(name)
		src := config.Source{Name: have.Name, Provider: config.Text{Value: name}, Secrets: have.Secrets, Mode: have.Mode}
		if takes(known, "url") {
			src.URL = have.URL
		}
		if takes(known, "public_keys") {
			src.PublicKeys = have.PublicKeys
		}
		if len(known.ID) == 0 && !known.Hint {
			src.ID = have.ID
		}
		if q.with(src) {
			return []Cause{{
				Kind: "provider",
				What: fmt.Sprintf("it is signed as %s signs, not as %s", name, have.Provider.Value),
				Do:   fmt.Sprintf("write provider: %s in the configuration of this source", name),
			}}
		}
	}
	return nil
}
