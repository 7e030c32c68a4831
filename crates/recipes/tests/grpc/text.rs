//! How messages are encoded, which are texts. In most programs prost does this.

use bytes::{Buf, BufMut};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

#[derive(Default)]
pub(crate) struct Text;

impl Codec for Text {
    type Encode = String;
    type Decode = String;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Text {
    type Item = String;
    type Error = Status;

    fn encode(&mut self, text: String, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(text.as_bytes());
        Ok(())
    }
}

impl Decoder for Text {
    type Item = String;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<String>, Status> {
        let bytes = buffer.copy_to_bytes(buffer.remaining());
        String::from_utf8(bytes.into()).map(Some).map_err(|error| Status::internal(error.to_string()))
    }
}
