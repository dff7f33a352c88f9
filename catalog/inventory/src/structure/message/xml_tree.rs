//! XML as a tree of elements with resolved namespaces, and nothing else XML can do.

use std::collections::VecDeque;

use quick_xml::{
    NsReader, XmlVersion,
    escape::resolve_predefined_entity,
    events::{BytesStart, Event},
    name::ResolveResult,
};

use super::{Limits, MessageError, bad, boolean, bounded, decimal, number};
use crate::structure::model::Decimal;

/// The namespaces a name may be in; the prefix means nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Space {
    /// `…/v2_1/message`.
    Message,
    /// `…/v2_1/structure`.
    Structure,
    /// `…/v2_1/common`.
    Common,
    /// `http://www.w3.org/XML/1998/namespace`.
    Xml,
    /// `http://www.w3.org/2001/XMLSchema-instance`.
    Instance,
    /// In no namespace.
    None,
    /// Any other.
    Other,
}

impl Space {
    fn of(resolved: &ResolveResult<'_>) -> Result<Self, MessageError> {
        match resolved {
            ResolveResult::Unbound => Ok(Self::None),
            ResolveResult::Unknown(prefix) => Err(MessageError::Xml(format!("the prefix `{prefix}` is not declared"))),
            ResolveResult::Bound(namespace) => Ok(match namespace.as_ref() {
                "http://www.sdmx.org/resources/sdmxml/schemas/v2_1/message" => Self::Message,
                "http://www.sdmx.org/resources/sdmxml/schemas/v2_1/structure" => Self::Structure,
                "http://www.sdmx.org/resources/sdmxml/schemas/v2_1/common" => Self::Common,
                "http://www.w3.org/XML/1998/namespace" => Self::Xml,
                "http://www.w3.org/2001/XMLSchema-instance" => Self::Instance,
                _ => Self::Other,
            }),
        }
    }
}

/// An element whose attributes and children are taken one by one; [`Element::finish`] refuses what nobody took.
#[derive(Debug)]
pub(super) struct Element {
    pub(super) place: String,
    pub(super) space: Space,
    pub(super) name: String,
    attributes: Vec<(Space, String, String)>,
    children: VecDeque<Self>,
    text: String,
}

impl Element {
    pub(super) fn parse(bytes: &[u8], limits: Limits) -> Result<Self, MessageError> {
        let source = bounded(bytes, limits)?;
        let mut reader = NsReader::from_str(source);
        let wrong = |error: quick_xml::Error| MessageError::Xml(error.to_string());
        let mut open: Vec<Self> = Vec::new();
        let mut root = None;
        let mut parts = 0;
        loop {
            let (space, event) = {
                let (resolved, event) = reader.read_resolved_event().map_err(wrong)?;
                let space = match event {
                    Event::Start(_) | Event::Empty(_) => Space::of(&resolved)?,
                    _ => Space::None,
                };
                (space, event)
            };
            match event {
                Event::Start(start) | Event::Empty(start) if root.is_some() => {
                    let name = start.name().as_ref().to_owned();
                    return Err(MessageError::Xml(format!("`{name}` stands after the root element")));
                }
                Event::Start(start) => {
                    if open.len() >= limits.depth {
                        return Err(MessageError::TooDeep { limit: limits.depth });
                    }
                    open.push(Self::start(&reader, space, &start, limits, &mut parts)?);
                }
                Event::Empty(start) => {
                    let element = Self::start(&reader, space, &start, limits, &mut parts)?;
                    close(element, &mut open, &mut root);
                }
                Event::End(_) => {
                    if let Some(element) = open.pop() {
                        close(element, &mut open, &mut root);
                    }
                }
                Event::Text(text) => {
                    let content = text.xml10_content();
                    add_text(&mut open, &content)?;
                }
                Event::CData(text) => {
                    let content = text.xml10_content();
                    add_text(&mut open, &content)?;
                }
                Event::GeneralRef(reference) => {
                    let character = reference.resolve_char_ref().map_err(wrong)?;
                    match character {
                        Some(character) => add_text(&mut open, character.encode_utf8(&mut [0; 4]))?,
                        None => {
                            let name = reference.into_inner();
                            let text = resolve_predefined_entity(&name).ok_or_else(|| MessageError::Entity {
                                name: crate::structure::urn::shorten(&name),
                            })?;
                            add_text(&mut open, text)?;
                        }
                    }
                }
                Event::DocType(_) => return Err(MessageError::DocumentType),
                Event::Decl(declaration) => {
                    let encoding = declaration
                        .encoding()
                        .transpose()
                        .map_err(|error| MessageError::Xml(error.to_string()))?;
                    if encoding.is_some_and(|encoding| !encoding.eq_ignore_ascii_case("utf-8")) {
                        return Err(MessageError::NotUtf8);
                    }
                }
                Event::Comment(_) | Event::PI(_) => {}
                Event::Eof => break,
            }
        }
        if let Some(element) = open.last() {
            return Err(MessageError::Xml(format!("`{}` is not closed", element.name)));
        }
        root.ok_or_else(|| MessageError::Xml("there is no element".to_owned()))
    }

    fn start(
        reader: &NsReader<&[u8]>,
        space: Space,
        start: &BytesStart<'_>,
        limits: Limits,
        parts: &mut usize,
    ) -> Result<Self, MessageError> {
        let mut count = || {
            *parts += 1;
            if *parts > limits.parts {
                Err(MessageError::TooManyParts { limit: limits.parts })
            } else {
                Ok(())
            }
        };
        count()?;
        let mut attributes: Vec<(Space, String, String)> = Vec::new();
        for attribute in start.attributes() {
            count()?;
            let attribute = attribute.map_err(|error| MessageError::Xml(error.to_string()))?;
            if attribute.key.as_namespace_binding().is_some() {
                continue;
            }
            let (resolved, name) = reader.resolver().resolve_attribute(attribute.key);
            let space = Space::of(&resolved)?;
            let name = name.as_ref().to_owned();
            let value = attribute
                .normalized_value(XmlVersion::Implicit1_0)
                .map_err(|error| MessageError::Xml(error.to_string()))?;
            if space != Space::Other
                && attributes
                    .iter()
                    .any(|(other, known, _)| *other == space && *known == name)
            {
                return Err(MessageError::Xml(format!("the attribute `{name}` is there twice")));
            }
            attributes.push((space, name, value.into_owned()));
        }
        let name = start.local_name().as_ref().to_owned();
        Ok(Self {
            place: name.clone(),
            space,
            name,
            attributes,
            children: VecDeque::new(),
            text: String::new(),
        })
    }

    /// Takes an attribute in no namespace.
    pub(super) fn attribute(&mut self, name: &str) -> Option<String> {
        self.attribute_in(Space::None, name)
    }

    pub(super) fn attribute_in(&mut self, space: Space, name: &str) -> Option<String> {
        let at = self
            .attributes
            .iter()
            .position(|(other, known, _)| *other == space && known == name)?;
        Some(self.attributes.swap_remove(at).2)
    }

    pub(super) fn needed(&mut self, name: &'static str) -> Result<String, MessageError> {
        self.attribute(name).ok_or_else(|| MessageError::Missing {
            place: self.place.clone(),
            what: name,
        })
    }

    pub(super) fn boolean(&mut self, name: &str) -> Result<Option<bool>, MessageError> {
        self.attribute(name)
            .map(|text| boolean(&self.place, name, &text))
            .transpose()
    }

    pub(super) fn number<T: std::str::FromStr>(&mut self, name: &str) -> Result<Option<T>, MessageError> {
        self.attribute(name)
            .map(|text| number(&self.place, name, &text))
            .transpose()
    }

    pub(super) fn decimal(&mut self, name: &str) -> Result<Option<Decimal>, MessageError> {
        self.attribute(name)
            .map(|text| decimal(&self.place, name, &text))
            .transpose()
    }

    /// Takes all children of a name, in order.
    pub(super) fn children(&mut self, space: Space, name: &str) -> Vec<Self> {
        let mut taken = Vec::new();
        let mut kept = VecDeque::new();
        for mut child in std::mem::take(&mut self.children) {
            if child.space == space && child.name == name {
                child.place = format!("{}/{name}", self.place);
                taken.push(child);
            } else {
                kept.push_back(child);
            }
        }
        self.children = kept;
        taken
    }

    /// Takes the one child of a name; refuses a second.
    pub(super) fn child(&mut self, space: Space, name: &str) -> Result<Option<Self>, MessageError> {
        let mut taken = self.children(space, name);
        if taken.len() > 1 {
            return Err(bad(&self.place, name, &taken.len().to_string(), "there is one at most"));
        }
        Ok(taken.pop())
    }

    pub(super) fn needed_child(&mut self, space: Space, name: &'static str) -> Result<Self, MessageError> {
        self.child(space, name)?.ok_or_else(|| MessageError::Missing {
            place: self.place.clone(),
            what: name,
        })
    }

    /// All children, in order, whatever they are.
    pub(super) fn into_children(mut self) -> VecDeque<Self> {
        std::mem::take(&mut self.children)
    }

    /// Takes the text of an element that holds text and no elements.
    pub(super) fn into_text(mut self) -> Result<String, MessageError> {
        let text = std::mem::take(&mut self.text);
        self.finish()?;
        Ok(text)
    }

    /// Refuses what nobody took. Attributes of XML Schema instances and of foreign namespaces say nothing about content.
    pub(super) fn finish(self) -> Result<(), MessageError> {
        let left = self
            .attributes
            .iter()
            .find(|(space, _, _)| !matches!(space, Space::Instance | Space::Other | Space::Xml));
        if let Some((_, name, _)) = left {
            return Err(MessageError::Unsupported {
                place: self.place,
                what: name.clone(),
            });
        }
        if let Some(child) = self.children.front() {
            return Err(MessageError::Unsupported {
                what: child.name.clone(),
                place: self.place,
            });
        }
        if !self.text.trim().is_empty() {
            return Err(bad(&self.place, "text", &self.text, "no text stands here"));
        }
        Ok(())
    }
}

fn close(element: Element, open: &mut [Element], root: &mut Option<Element>) {
    match open.last_mut() {
        Some(parent) => parent.children.push_back(element),
        None => *root = Some(element),
    }
}

fn add_text(open: &mut [Element], text: &str) -> Result<(), MessageError> {
    match open.last_mut() {
        Some(element) => element.text.push_str(text),
        None if text.trim().is_empty() => {}
        None => return Err(MessageError::Xml("there is text outside the root element".to_owned())),
    }
    Ok(())
}
