# What is generated for users, archives and packages; part of the Makefile.

MANDIR  ?= $(PREFIX)/share/man
BASHDIR ?= $(PREFIX)/share/bash-completion/completions
ZSHDIR  ?= $(PREFIX)/share/zsh/site-functions
FISHDIR ?= $(PREFIX)/share/fish/vendor_completions.d
SHOWN    = $(BUILD)/shown

install: install-shown install-pages
uninstall: uninstall-shown

# README and the pages that it links to.
PAGES = README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md spec/SAFETY.md spec/ATTACKS.md \
        spec/bench/README.md

.PHONY: install-pages
install-pages: ## install only README, the pages and the examples
	find $(PAGES) examples -type f | while read -r f; do \
	    install -D -m 644 $$f "$(DESTDIR)$(DOCDIR)/$$f" || exit 1; done
	ln -sfnr "$(DESTDIR)$(LUADIR)" "$(DESTDIR)$(DOCDIR)/lua"

# LuaRocks would keep each file that `make install` has put into its tree, under another name.
.PHONY: install-rock
install-rock: install-lua
	@tree=$(firstword $(subst /lib/luarocks/, ,$(LUADIR))); \
	    [ ! -e "$$tree/share/doc/redlock/LICENSE" ] || { echo "make install has been used here;" \
	    "first run: make uninstall PREFIX=$$tree" >&2; exit 1; }

# Of the table that --help is made of, and of the page on errors.
.PHONY: install-shown
install-shown: ## install only man page and shell completions
	@mkdir -p $(SHOWN)
	$(LUAJIT) rockspec/man $(SHOWN)/redlock.1
	for shell in bash zsh fish; do \
	    $(LUAJIT) rockspec/completion $$shell $(SHOWN)/$$shell || exit 1; done
	install -D -m 644 $(SHOWN)/redlock.1 "$(DESTDIR)$(MANDIR)/man1/redlock.1"
	install -D -m 644 $(SHOWN)/bash "$(DESTDIR)$(BASHDIR)/redlock"
	install -D -m 644 $(SHOWN)/zsh "$(DESTDIR)$(ZSHDIR)/_redlock"
	install -D -m 644 $(SHOWN)/fish "$(DESTDIR)$(FISHDIR)/redlock.fish"

.PHONY: uninstall-shown
uninstall-shown:
	rm -f "$(DESTDIR)$(MANDIR)/man1/redlock.1" "$(DESTDIR)$(BASHDIR)/redlock" \
	    "$(DESTDIR)$(ZSHDIR)/_redlock" "$(DESTDIR)$(FISHDIR)/redlock.fish"

DIST = $(BUILD)/dist
NAME = redlock-$(VERSION)
ROCK = $(subst ~,,$(VERSION))-1

# Where the archive is to be found, by default beside the rockspec; and the page of the project, if
# the repository knows it.
DIST_URL ?= file://$(NAME).tar.gz
HOMEPAGE ?= $(shell git config remote.origin.url 2> /dev/null | sed -n 's,\.git$$,,; /^https:/p')

comma := ,

# The time of all files in what is released: that of the commit.
EPOCH = $(shell git log -1 --format=%ct 2> /dev/null || stat -c %Y Makefile)

# What git has, with changes; in an archive all but what was built. The same bytes each time.
.PHONY: dist
dist: ## build/dist/: source archive and rockspec; DIST_URL=address
	@mkdir -p $(DIST)
	if [ -e .git ]; then git ls-files -co --exclude-standard > $(DIST)/files || { \
	    echo "There is no list of files: git is needed here, and must take this folder" >&2; exit 1; }; \
	    else find . -path ./build -prune -o -type f -print | sed 's,^\./,,' > $(DIST)/files; fi
	LC_ALL=C sort $(DIST)/files | tar c -T - --ignore-failed-read \
	    --transform 's,^,$(NAME)/,' --mode=go-w --owner=0 --group=0 --numeric-owner \
	    --mtime="@$(EPOCH)" | \
	    gzip -n > $(DIST)/$(NAME).tar.gz
	@rm $(DIST)/files
	sed -e 's,^version = .*,version = "$(ROCK)",' \
	    -e 's,^    url = .*,    url = "$(DIST_URL)"\,\n    dir = "$(NAME)"\,,' \
	    $(if $(HOMEPAGE),-e 's|^    license =|    homepage = "$(HOMEPAGE)"$(comma)\n&|') \
	    rockspec/redlock-dev-1.rockspec > $(DIST)/redlock-$(ROCK).rockspec

# The package's maintainer: the author of the last commit, or without a repository the user who builds it.
MAINTAINER ?= $(shell git log -1 --format='%an <%ae>' 2> /dev/null || \
    echo "$$(id -un) <$$(id -un)@$$(uname -n)>")

.PHONY: deb
deb: dist ## build/deb/: packages for Debian: redlock, lua-redlock, redlock-dev
	@spec/setup release
	rm -rf $(BUILD)/deb
	mkdir -p $(BUILD)/deb
	tar x -C $(BUILD)/deb -f $(DIST)/$(NAME).tar.gz
	cd $(BUILD)/deb/$(NAME) && mv rockspec/debian debian && \
	    sed -i 's/^Maintainer:.*/Maintainer: $(MAINTAINER)/' debian/control && \
	    sed -e 's/@version@/$(VERSION)/' -e 's/@maintainer@/$(MAINTAINER)/' \
	        -e "s/@date@/$$(LC_ALL=C date -uR -d "$$(stat -c @%Y Makefile)")/" \
	        debian/changelog.in > debian/changelog && rm debian/changelog.in && \
	    dpkg-buildpackage -b -us -uc
	@echo "They run on this release and later ones: build on the oldest that is to have them."

.PHONY: sbom
sbom: dist ## build/dist/: a list of what is in the archive (SPDX 2.3)
	rockspec/sbom $(DIST)/$(NAME).tar.gz > $(DIST)/$(NAME).spdx

# The same bytes each time, for the same compiler and libraries.
RELEASE = $(BUILD)/release

.PHONY: release
release: deb sbom ## build/release/: archive, rocks, packages, SBOM
	rm -rf $(RELEASE)
	mkdir -p $(RELEASE)
	cp $(DIST)/$(NAME).tar.gz $(DIST)/redlock-$(ROCK).rockspec $(DIST)/$(NAME).spdx \
	    $(BUILD)/deb/redlock_$(VERSION)_*.deb $(BUILD)/deb/lua-redlock_$(VERSION)_*.deb \
	    $(BUILD)/deb/redlock-dev_$(VERSION)_*.deb $(RELEASE)
	SOURCE_DATE_EPOCH=$(EPOCH) rockspec/rocks $(RELEASE)/$(NAME).tar.gz \
	    $(RELEASE)/redlock-$(ROCK).rockspec
	cd $(RELEASE) && sha256sum * > SHA256SUMS
